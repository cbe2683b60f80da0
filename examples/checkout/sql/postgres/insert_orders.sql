-- Waits, by the unique key, for another transaction that inserts the same invoice; so in the order of the invoices, which is that
-- of the list. READ COMMITTED; the number of rows says whether one was there already.
INSERT INTO shop_order (invoice, units_out, units_back)
SELECT value ->> 0, (value ->> 1)::bigint, (value ->> 2)::bigint
FROM json_array_elements($1::text::json) WITH ORDINALITY AS placed (value, place)
ORDER BY place
ON CONFLICT (invoice) DO NOTHING

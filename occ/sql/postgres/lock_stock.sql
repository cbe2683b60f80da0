-- Locks the rows of a batch one after the other in the order of $1, which is sorted by bytes, so that two of these never wait
-- for each other in a circle; against everything but a foreign key's check. LATERAL with a lock inside is run once a key, by
-- the key's index, whatever the planner believes of the table's size. Right at READ COMMITTED: what another transaction
-- changed while this waited is read as it is then.
SELECT stock.stock_key, stock.units
FROM unnest($1::text[]) AS wanted (stock_key)
CROSS JOIN LATERAL (
    SELECT {key}::text AS stock_key, {units}::bigint AS units
    FROM {table}
    WHERE {key} = wanted.stock_key
    FOR NO KEY UPDATE
) AS stock

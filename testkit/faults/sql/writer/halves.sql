-- A plain read: batches that are not whole, which no transaction may leave. It takes no lock.
SELECT write_id FROM item GROUP BY write_id HAVING count(*) <> 3

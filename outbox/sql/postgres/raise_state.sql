-- Lock: every shard's row, to the end of the transaction, by the subquery. Isolation: READ COMMITTED. The shards that are appended to,
-- those that wait, and whether a key is blocked.
SELECT count(*) FILTER (WHERE NOT s.retired),
       count(*) FILTER (WHERE s.waits),
       EXISTS (SELECT FROM leastlock_outbox_parked_queue AS q JOIN leastlock_outbox_parked AS p USING (queue) WHERE q.blocks)::integer::bigint
FROM (SELECT * FROM leastlock_outbox_shard ORDER BY shard FOR UPDATE) AS s

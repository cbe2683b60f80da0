-- Lock: the rows of free shards; a shard that another relay is claiming is skipped. Isolation: READ COMMITTED. Whether a
-- lease is over is judged by the database's clock. The epoch fences the previous owner: it advances no cursor any more.
-- At most $4 of the shards $3, none of which the owner holds; MATERIALIZED, so that the limit is applied once. Free for it is
-- also what bears its name: it lost the answer of an earlier claim, or gave the shard up.
WITH free AS MATERIALIZED (
    SELECT shard
    FROM leastlock_outbox_shard
    WHERE NOT waits
      AND shard = ANY ($3::bigint[])
      AND (lease_until IS NULL OR lease_until <= clock_timestamp() OR owner = $1)
    ORDER BY shard
    LIMIT $4
    FOR UPDATE SKIP LOCKED
)
UPDATE leastlock_outbox_shard AS s
SET owner = $1,
    lease_until = clock_timestamp() + $2::bigint * interval '1 millisecond',
    epoch = s.epoch + 1,
    system_id = coalesce(s.system_id, (SELECT system_identifier FROM pg_control_system()))
FROM free
WHERE s.shard = free.shard
RETURNING s.shard::bigint, s.epoch, s.done::text, s.target::text, s.last_id

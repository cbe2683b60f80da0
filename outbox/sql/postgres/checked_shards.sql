-- Lock: ACCESS EXCLUSIVE on the log where the number of shards was raised once, else none; rows are not read. From here on nothing is appended
-- to a retired shard, whoever still counts by the old number and at whatever isolation level: a constraint is not looked up in
-- the transaction's snapshot.
DO $$
DECLARE
    first smallint := (SELECT min(shard) FROM leastlock_outbox_shard WHERE NOT retired);
BEGIN
    IF first > 0 THEN
        EXECUTE format('ALTER TABLE leastlock_outbox ADD CONSTRAINT leastlock_outbox_active CHECK (shard >= %s) NOT VALID', first);
    END IF;
END
$$

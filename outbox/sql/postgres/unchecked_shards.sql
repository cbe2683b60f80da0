-- Lock: ACCESS EXCLUSIVE on the log where the number of shards was raised once, else none. A row that is changed is checked again, and
-- those from before the raise have numbers that checked_shards.sql refuses.
DO $$
BEGIN
    IF EXISTS (SELECT FROM leastlock_outbox_shard WHERE retired) THEN
        ALTER TABLE leastlock_outbox DROP CONSTRAINT leastlock_outbox_active;
    END IF;
END
$$

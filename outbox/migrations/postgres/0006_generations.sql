-- Which raise a shard is of: relays share the shards of each by themselves, since only the last ones are appended to. What was raised
-- before this is told by `retired`; of several raises all but the last are shared as one.
ALTER TABLE leastlock_outbox_shard ADD COLUMN generation bigint NOT NULL DEFAULT 0;

UPDATE leastlock_outbox_shard SET generation = 1
WHERE NOT retired AND EXISTS (SELECT FROM leastlock_outbox_shard WHERE retired);

-- What had been published at a moment: when that is long enough ago, the events behind it may be deleted.
CREATE TABLE leastlock_outbox_mark (
    shard    INTEGER NOT NULL,
    noted_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    last_id  INTEGER NOT NULL,
    PRIMARY KEY (shard, noted_at)
);

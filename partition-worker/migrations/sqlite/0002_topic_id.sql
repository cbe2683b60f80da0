-- Which topic of that name it is. NULL: the cluster does not say, or has not been asked yet.
ALTER TABLE leastlock_partition ADD COLUMN topic_id TEXT;

-- What operators did to partitions. from_offset and topic_id are what stood there before. at is in milliseconds since 1970, UTC.
CREATE TABLE leastlock_partition_audit (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at          INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    actor       TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    group_id    TEXT    NOT NULL,
    topic       TEXT    NOT NULL,
    partition   INTEGER NOT NULL,
    from_offset INTEGER,
    to_offset   INTEGER,
    topic_id    TEXT
);

-- An insert-only log. AUTOINCREMENT never reuses an id, and under the one write lock ids follow commit order.
-- Times are integers: milliseconds since 1970-01-01 UTC.
CREATE TABLE leastlock_outbox (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id   TEXT    NOT NULL,
    topic      TEXT    NOT NULL,
    key        BLOB,
    value      BLOB,
    headers    TEXT    NOT NULL DEFAULT '[]',
    partition  INTEGER,
    created_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
);

-- One shard: a plain cursor is right where there is one writer.
CREATE TABLE leastlock_outbox_shard (
    shard       INTEGER NOT NULL PRIMARY KEY,
    owner       TEXT,
    lease_until INTEGER,
    epoch       INTEGER NOT NULL DEFAULT 0,
    last_id     INTEGER NOT NULL DEFAULT 0
);

INSERT INTO leastlock_outbox_shard (shard) VALUES (0);

CREATE TABLE leastlock_outbox_parked (
    shard      INTEGER NOT NULL,
    id         INTEGER NOT NULL,
    event_id   TEXT    NOT NULL,
    topic      TEXT    NOT NULL,
    key        BLOB,
    value      BLOB,
    headers    TEXT    NOT NULL,
    partition  INTEGER,
    created_at INTEGER NOT NULL,
    parked_at  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    reason     TEXT    NOT NULL,
    PRIMARY KEY (shard, id)
);

-- Which events a consumer has seen. Times are integers: milliseconds since 1970-01-01 UTC.
CREATE TABLE leastlock_inbox (
    consumer TEXT    NOT NULL,
    event_id TEXT    NOT NULL,
    seen_at  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    PRIMARY KEY (consumer, event_id)
) WITHOUT ROWID;

CREATE INDEX leastlock_inbox_seen_at ON leastlock_inbox (seen_at);

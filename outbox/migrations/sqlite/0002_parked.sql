-- Parked events stand in queues, and leave a queue in the order of their ids. A key has one queue; an event that is parked alone
-- has one to itself. `queue` names it: the first 16 bytes, in hex, of a SHA-256 (src/parked/queue.rs).
-- While a row with `blocks` is here, later events of its key are parked behind the ones that are. Only the relay that holds the shard
-- adds a row, or removes one whose events it has sent; operators ask by `state`.
CREATE TABLE leastlock_outbox_parked_queue (
    queue     TEXT    NOT NULL PRIMARY KEY,
    shard     INTEGER NOT NULL,
    topic     TEXT    NOT NULL,
    key       BLOB,
    blocks    INTEGER NOT NULL,
    state     TEXT    NOT NULL CHECK (state IN ('parked', 'retrying', 'releasing')),
    since     INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    asked_at  INTEGER
);

CREATE INDEX leastlock_outbox_parked_queue_blocks ON leastlock_outbox_parked_queue (shard) WHERE blocks;
CREATE INDEX leastlock_outbox_parked_queue_asked ON leastlock_outbox_parked_queue (shard, queue) WHERE state <> 'parked';

-- No version before this one wrote the table. `refused_at` is NULL for what was only parked behind another event; `attempts` counts
-- the sends that an operator asked for and that were refused again. (A new column that is NOT NULL needs a default here.)
ALTER TABLE leastlock_outbox_parked ADD COLUMN queue TEXT NOT NULL DEFAULT '';
ALTER TABLE leastlock_outbox_parked ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leastlock_outbox_parked ADD COLUMN refused_at INTEGER;

CREATE INDEX leastlock_outbox_parked_in_queue ON leastlock_outbox_parked (queue, id);
CREATE INDEX leastlock_outbox_parked_event ON leastlock_outbox_parked (event_id);

-- Who asked for what. A row is written in the transaction of its action and never changed.
CREATE TABLE leastlock_outbox_audit (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    actor    TEXT    NOT NULL,
    action   TEXT    NOT NULL CHECK (action IN ('retry', 'skip', 'release')),
    reason   TEXT    NOT NULL,
    topic    TEXT    NOT NULL,
    key      BLOB,
    event_id TEXT,
    queues   INTEGER NOT NULL
);

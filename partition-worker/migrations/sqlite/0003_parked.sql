-- Parked records stand in queues, and leave a queue in the order of their offsets. A key of a partition has one queue; a record that
-- is parked alone has one to itself. `queue` names it: the first 16 bytes, in hex, of a SHA-256 (src/parked/queue.rs).
-- While a row with `blocks` is here, later records of its key follow it. Only the owner of the partition adds a row, or removes one whose
-- records it has handled; operators ask by `state`. Times are in milliseconds since 1970, UTC.
CREATE TABLE leastlock_partition_parked (
    group_id      TEXT NOT NULL,
    topic         TEXT NOT NULL,
    partition     INTEGER NOT NULL,
    queue         TEXT NOT NULL,
    record_key    BLOB,
    blocks        INTEGER NOT NULL,
    parking_topic TEXT NOT NULL,
    state         TEXT NOT NULL DEFAULT 'parked' CHECK (state IN ('parked', 'releasing')),
    cause         TEXT NOT NULL CHECK (cause IN ('exhausted', 'permanent', 'poison', 'lost')),
    reason        TEXT NOT NULL,
    since         INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    asked_at      INTEGER,
    PRIMARY KEY (group_id, topic, partition, queue)
);

CREATE INDEX leastlock_partition_parked_asked ON leastlock_partition_parked (group_id, topic, partition) WHERE state <> 'parked';

-- The records of a queue. What they are stands in the parking topic; here is where in it. Their offsets are finished.
-- `attempts` counts how often the handler failed.
CREATE TABLE leastlock_partition_parked_record (
    group_id          TEXT NOT NULL,
    topic             TEXT NOT NULL,
    partition         INTEGER NOT NULL,
    queue             TEXT NOT NULL,
    record_offset     INTEGER NOT NULL,
    parking_partition INTEGER NOT NULL,
    parking_offset    INTEGER NOT NULL,
    attempts          INTEGER NOT NULL,
    parked_at         INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    PRIMARY KEY (group_id, topic, partition, queue, record_offset)
) WITHOUT ROWID;

-- Who asked for what. A row is written in the transaction of its action and never changed.
CREATE TABLE leastlock_partition_parked_audit (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    at            INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    actor         TEXT NOT NULL,
    action        TEXT NOT NULL CHECK (action IN ('release', 'discard')),
    reason        TEXT NOT NULL,
    group_id      TEXT NOT NULL,
    topic         TEXT NOT NULL,
    partition     INTEGER NOT NULL,
    queue         TEXT NOT NULL,
    record_key    BLOB,
    record_offset INTEGER,
    records       INTEGER NOT NULL
);

CREATE INDEX leastlock_partition_parked_audit_of ON leastlock_partition_parked_audit (group_id, id);

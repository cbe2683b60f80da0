-- Parked records stand in queues, and leave a queue in the order of their offsets. A key of a partition has one queue; a record that
-- is parked alone has one to itself. `queue` names it: the first 16 bytes, in hex, of a SHA-256 (src/parked/queue.rs).
-- While a row with `blocks` is here, later records of its key follow it. Only the owner of the partition adds a row, or removes one whose
-- records it has handled; operators ask by `state`.
CREATE TABLE leastlock_partition_parked (
    group_id      text NOT NULL,
    topic         text COLLATE "C" NOT NULL,
    partition     integer NOT NULL,
    queue         text COLLATE "C" NOT NULL,
    record_key    bytea,
    blocks        boolean NOT NULL,
    parking_topic text COLLATE "C" NOT NULL,
    state         text NOT NULL DEFAULT 'parked' CHECK (state IN ('parked', 'releasing')),
    cause         text NOT NULL CHECK (cause IN ('exhausted', 'permanent', 'poison', 'lost')),
    reason        text NOT NULL,
    since         timestamptz NOT NULL DEFAULT clock_timestamp(),
    asked_at      timestamptz,
    PRIMARY KEY (group_id, topic, partition, queue)
);

CREATE INDEX leastlock_partition_parked_asked ON leastlock_partition_parked (group_id, topic, partition) WHERE state <> 'parked';

-- The records of a queue. What they are stands in the parking topic; here is where in it. Their offsets are finished.
-- `attempts` counts how often the handler failed.
CREATE TABLE leastlock_partition_parked_record (
    group_id          text NOT NULL,
    topic             text COLLATE "C" NOT NULL,
    partition         integer NOT NULL,
    queue             text COLLATE "C" NOT NULL,
    record_offset     bigint NOT NULL,
    parking_partition integer NOT NULL,
    parking_offset    bigint NOT NULL,
    attempts          bigint NOT NULL,
    parked_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (group_id, topic, partition, queue, record_offset)
);

-- Who asked for what. A row is written in the transaction of its action and never changed.
CREATE TABLE leastlock_partition_parked_audit (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor         text NOT NULL,
    action        text NOT NULL CHECK (action IN ('release', 'discard')),
    reason        text NOT NULL,
    group_id      text NOT NULL,
    topic         text COLLATE "C" NOT NULL,
    partition     integer NOT NULL,
    queue         text COLLATE "C" NOT NULL,
    record_key    bytea,
    record_offset bigint,
    records       bigint NOT NULL
);

CREATE INDEX leastlock_partition_parked_audit_of ON leastlock_partition_parked_audit (group_id, id);

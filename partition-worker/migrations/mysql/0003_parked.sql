-- Parked records stand in queues, and leave a queue in the order of their offsets. A key of a partition has one queue; a record that
-- is parked alone has one to itself. `queue` names it: the first 16 bytes, in hex, of a SHA-256 (src/parked/queue.rs).
-- While a row with `blocks` is here, later records of its key follow it. Only the owner of the partition adds a row, or removes one whose
-- records it has handled; operators ask by `state`. Times are UTC.
CREATE TABLE leastlock_partition_parked (
    group_id      VARBINARY(255) NOT NULL,
    topic         VARBINARY(249) NOT NULL,
    `partition`   INT NOT NULL,
    queue         VARBINARY(32) NOT NULL,
    record_key    LONGBLOB,
    blocks        BOOLEAN NOT NULL,
    parking_topic VARBINARY(249) NOT NULL,
    state         VARBINARY(16) NOT NULL DEFAULT 'parked' CHECK (state IN ('parked', 'releasing')),
    cause         VARBINARY(16) NOT NULL CHECK (cause IN ('exhausted', 'permanent', 'poison', 'lost')),
    reason        VARBINARY(4000) NOT NULL,
    since         DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    asked_at      DATETIME(6),
    PRIMARY KEY (group_id, topic, `partition`, queue),
    KEY leastlock_partition_parked_asked (group_id, topic, `partition`, state)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- The records of a queue. What they are stands in the parking topic; here is where in it. Their offsets are finished.
-- `attempts` counts how often the handler failed.
CREATE TABLE leastlock_partition_parked_record (
    group_id          VARBINARY(255) NOT NULL,
    topic             VARBINARY(249) NOT NULL,
    `partition`       INT NOT NULL,
    queue             VARBINARY(32) NOT NULL,
    record_offset     BIGINT NOT NULL,
    parking_partition INT NOT NULL,
    parking_offset    BIGINT NOT NULL,
    attempts          BIGINT NOT NULL,
    parked_at         DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (group_id, topic, `partition`, queue, record_offset)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Who asked for what. A row is written in the transaction of its action and never changed.
CREATE TABLE leastlock_partition_parked_audit (
    id            BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    actor         VARBINARY(255) NOT NULL,
    action        VARBINARY(16) NOT NULL CHECK (action IN ('release', 'discard')),
    reason        VARBINARY(4000) NOT NULL,
    group_id      VARBINARY(255) NOT NULL,
    topic         VARBINARY(249) NOT NULL,
    `partition`   INT NOT NULL,
    queue         VARBINARY(32) NOT NULL,
    record_key    LONGBLOB,
    record_offset BIGINT,
    records       BIGINT NOT NULL,
    KEY leastlock_partition_parked_audit_of (group_id, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

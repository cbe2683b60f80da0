-- Parked events stand in queues, and leave a queue in the order of their ids. A key has one queue; an event that is parked alone
-- has one to itself. `queue` names it: the first 16 bytes, in hex, of a SHA-256 (src/parked/queue.rs).
-- While a row with `blocks` is here, later events of its key are parked behind the ones that are. Only the relay that holds the shard
-- adds a row, or removes one whose events it has sent; operators ask by `state`.
CREATE TABLE leastlock_outbox_parked_queue (
    queue    VARBINARY(32)  NOT NULL PRIMARY KEY,
    shard    SMALLINT       NOT NULL,
    topic    VARBINARY(249) NOT NULL,
    `key`    LONGBLOB,
    blocks   BOOLEAN        NOT NULL,
    state    VARBINARY(16)  NOT NULL CHECK (state IN ('parked', 'retrying', 'releasing')),
    since    DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    asked_at DATETIME(6),
    KEY leastlock_outbox_parked_queue_blocks (shard, blocks),
    KEY leastlock_outbox_parked_queue_asked (shard, state, queue)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- No version before this one wrote the table. `refused_at` is NULL for what was only parked behind another event; `attempts` counts
-- the sends that an operator asked for and that were refused again.
ALTER TABLE leastlock_outbox_parked
    ADD COLUMN queue      VARBINARY(32) NOT NULL,
    ADD COLUMN attempts   BIGINT        NOT NULL DEFAULT 0,
    ADD COLUMN refused_at DATETIME(6),
    ADD KEY leastlock_outbox_parked_in_queue (queue, id),
    ADD KEY leastlock_outbox_parked_event (event_id);

-- Who asked for what. A row is written in the transaction of its action and never changed.
CREATE TABLE leastlock_outbox_audit (
    id       BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at       DATETIME(6)     NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    actor    VARBINARY(255)  NOT NULL,
    action   VARBINARY(16)   NOT NULL CHECK (action IN ('retry', 'skip', 'release')),
    reason   VARBINARY(4000) NOT NULL,
    topic    VARBINARY(249)  NOT NULL,
    `key`    LONGBLOB,
    event_id VARBINARY(36),
    queues   BIGINT          NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

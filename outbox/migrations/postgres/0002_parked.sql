-- Parked events stand in queues, and leave a queue in the order of their ids. A key has one queue; an event that is parked alone
-- has one to itself. `queue` names it: the first 16 bytes, in hex, of a SHA-256 (src/parked/queue.rs).
-- While a row with `blocks` is here, later events of its key are parked behind the ones that are. Only the relay that holds the shard
-- adds a row, or removes one whose events it has sent; operators ask by `state`.
CREATE TABLE leastlock_outbox_parked_queue (
    queue     text        COLLATE "C" NOT NULL PRIMARY KEY,
    shard     smallint    NOT NULL,
    topic     text        NOT NULL,
    key       bytea,
    blocks    boolean     NOT NULL,
    state     text        NOT NULL CHECK (state IN ('parked', 'retrying', 'releasing')),
    since     timestamptz NOT NULL DEFAULT clock_timestamp(),
    asked_at  timestamptz
) WITH (fillfactor = 70);

CREATE INDEX leastlock_outbox_parked_queue_blocks ON leastlock_outbox_parked_queue (shard) WHERE blocks;
CREATE INDEX leastlock_outbox_parked_queue_asked ON leastlock_outbox_parked_queue (shard, queue) WHERE state <> 'parked';

-- No version before this one wrote the table. `refused_at` is NULL for what was only parked behind another event; `attempts` counts
-- the sends that an operator asked for and that were refused again.
ALTER TABLE leastlock_outbox_parked
    ADD COLUMN queue      text   COLLATE "C" NOT NULL,
    ADD COLUMN attempts   bigint NOT NULL DEFAULT 0,
    ADD COLUMN refused_at timestamptz;

CREATE INDEX leastlock_outbox_parked_in_queue ON leastlock_outbox_parked (queue, id);
CREATE INDEX leastlock_outbox_parked_event ON leastlock_outbox_parked (event_id);

-- Who asked for what. A row is written in the transaction of its action and never changed.
CREATE TABLE leastlock_outbox_audit (
    id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor    text        NOT NULL,
    action   text        NOT NULL CHECK (action IN ('retry', 'skip', 'release')),
    reason   text        NOT NULL,
    topic    text        NOT NULL,
    key      bytea,
    event_id uuid,
    queues   bigint      NOT NULL
);

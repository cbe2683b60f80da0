-- The gate of a partition: the newest epoch that anyone has claimed. Nobody ever share-locks it, so that raising it never
-- waits, and every handler that starts later stops here.
CREATE TABLE leastlock_partition_gate (
    group_id  text    NOT NULL,
    topic     text    NOT NULL,
    partition integer NOT NULL,
    epoch     bigint  NOT NULL,
    owner     text    NOT NULL,
    PRIMARY KEY (group_id, topic, partition)
);

-- The guard of a partition: the epoch whose handlers may commit, and the offset below which everything is finished. Each
-- open handler share-locks its row. NULL in next_offset: the first owner has not yet fixed where it starts.
CREATE TABLE leastlock_partition (
    group_id    text        NOT NULL,
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    epoch       bigint      NOT NULL,
    next_offset bigint,
    owner       text        NOT NULL,
    sealed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (group_id, topic, partition)
) WITH (fillfactor = 50);

-- The finished offsets at or above next_offset. A row is inserted by the transaction of the record's effect.
CREATE TABLE leastlock_partition_done (
    group_id      text    NOT NULL,
    topic         text    NOT NULL,
    partition     integer NOT NULL,
    record_offset bigint  NOT NULL,
    PRIMARY KEY (group_id, topic, partition, record_offset)
);

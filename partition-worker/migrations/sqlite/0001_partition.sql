-- The gate of a partition: the newest epoch that anyone has claimed.
CREATE TABLE leastlock_partition_gate (
    group_id  TEXT    NOT NULL,
    topic     TEXT    NOT NULL,
    partition INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    owner     TEXT    NOT NULL,
    PRIMARY KEY (group_id, topic, partition)
) WITHOUT ROWID;

-- The guard of a partition: the epoch whose handlers may commit, and the offset below which everything is finished. NULL in
-- next_offset: the first owner has not yet fixed where it starts. sealed_at is in milliseconds since 1970, UTC.
CREATE TABLE leastlock_partition (
    group_id    TEXT    NOT NULL,
    topic       TEXT    NOT NULL,
    partition   INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    next_offset INTEGER,
    owner       TEXT    NOT NULL,
    sealed_at   INTEGER NOT NULL,
    PRIMARY KEY (group_id, topic, partition)
) WITHOUT ROWID;

-- The finished offsets at or above next_offset. A row is inserted by the transaction of the record's effect.
CREATE TABLE leastlock_partition_done (
    group_id      TEXT    NOT NULL,
    topic         TEXT    NOT NULL,
    partition     INTEGER NOT NULL,
    record_offset INTEGER NOT NULL,
    PRIMARY KEY (group_id, topic, partition, record_offset)
) WITHOUT ROWID;

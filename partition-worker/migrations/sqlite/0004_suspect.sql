-- Who owned a partition last, and how that ended: a process that dies does not say so. `suspects`: so many of
-- the records that come next may be what it died of.
CREATE TABLE leastlock_partition_tenure (
    group_id  TEXT NOT NULL,
    topic     TEXT NOT NULL,
    partition INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    ended     INTEGER NOT NULL,
    suspects  INTEGER NOT NULL,
    PRIMARY KEY (group_id, topic, partition)
) WITHOUT ROWID;

-- Records at whose handling a process may have died. A row is written before the handler starts, and only after a process has died.
-- `running_epoch`: it is being handled by this owner; if that one dies, `deaths` goes up.
CREATE TABLE leastlock_partition_suspect (
    group_id      TEXT NOT NULL,
    topic         TEXT NOT NULL,
    partition     INTEGER NOT NULL,
    record_offset INTEGER NOT NULL,
    deaths        INTEGER NOT NULL,
    running_epoch INTEGER,
    PRIMARY KEY (group_id, topic, partition, record_offset)
) WITHOUT ROWID;

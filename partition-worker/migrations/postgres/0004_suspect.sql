-- Who owned a partition last, and how that ended: a process that dies does not say so. `suspects`: so many of
-- the records that come next may be what it died of.
CREATE TABLE leastlock_partition_tenure (
    group_id  text NOT NULL,
    topic     text COLLATE "C" NOT NULL,
    partition integer NOT NULL,
    epoch     bigint NOT NULL,
    ended     boolean NOT NULL,
    suspects  bigint NOT NULL,
    PRIMARY KEY (group_id, topic, partition)
);

-- Records at whose handling a process may have died. A row is written before the handler starts, and only after a process has died.
-- `running_epoch`: it is being handled by this owner; if that one dies, `deaths` goes up.
CREATE TABLE leastlock_partition_suspect (
    group_id      text NOT NULL,
    topic         text COLLATE "C" NOT NULL,
    partition     integer NOT NULL,
    record_offset bigint NOT NULL,
    deaths        bigint NOT NULL,
    running_epoch bigint,
    PRIMARY KEY (group_id, topic, partition, record_offset)
);

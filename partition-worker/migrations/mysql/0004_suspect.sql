-- Who owned a partition last, and how that ended: a process that dies does not say so. `suspects`: so many of
-- the records that come next may be what it died of.
CREATE TABLE leastlock_partition_tenure (
    group_id    VARBINARY(255) NOT NULL,
    topic       VARBINARY(249) NOT NULL,
    `partition` INT NOT NULL,
    epoch       BIGINT NOT NULL,
    ended       BOOLEAN NOT NULL,
    suspects    BIGINT NOT NULL,
    PRIMARY KEY (group_id, topic, `partition`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Records at whose handling a process may have died. A row is written before the handler starts, and only after a process has died.
-- `running_epoch`: it is being handled by this owner; if that one dies, `deaths` goes up.
CREATE TABLE leastlock_partition_suspect (
    group_id      VARBINARY(255) NOT NULL,
    topic         VARBINARY(249) NOT NULL,
    `partition`   INT NOT NULL,
    record_offset BIGINT NOT NULL,
    deaths        BIGINT NOT NULL,
    running_epoch BIGINT,
    PRIMARY KEY (group_id, topic, `partition`, record_offset)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- The gate of a partition: the newest epoch that anyone has claimed. Nobody ever share-locks it, so that raising it never
-- waits, and every handler that starts later stops here. Names are bytes: no collation may take two groups or topics for one.
CREATE TABLE leastlock_partition_gate (
    group_id    VARBINARY(255) NOT NULL,
    topic       VARBINARY(249) NOT NULL,
    `partition` INT            NOT NULL,
    epoch       BIGINT         NOT NULL,
    owner       VARBINARY(255) NOT NULL,
    PRIMARY KEY (group_id, topic, `partition`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- The guard of a partition: the epoch whose handlers may commit, and the offset below which everything is finished. Each
-- open handler share-locks its row. NULL in next_offset: the first owner has not yet fixed where it starts. NULL in topic_id:
-- the cluster does not say which topic it is. sealed_at is UTC.
CREATE TABLE leastlock_partition (
    group_id    VARBINARY(255) NOT NULL,
    topic       VARBINARY(249) NOT NULL,
    `partition` INT            NOT NULL,
    epoch       BIGINT         NOT NULL,
    next_offset BIGINT,
    owner       VARBINARY(255) NOT NULL,
    sealed_at   DATETIME(6)    NOT NULL,
    topic_id    VARBINARY(22),
    PRIMARY KEY (group_id, topic, `partition`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- The finished offsets at or above next_offset. A row is inserted by the transaction of the record's effect.
CREATE TABLE leastlock_partition_done (
    group_id      VARBINARY(255) NOT NULL,
    topic         VARBINARY(249) NOT NULL,
    `partition`   INT            NOT NULL,
    record_offset BIGINT         NOT NULL,
    PRIMARY KEY (group_id, topic, `partition`, record_offset)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- What operators did to partitions. from_offset and topic_id are what stood there before. Times are UTC.
CREATE TABLE leastlock_partition_audit (
    id          BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at          DATETIME(6)     NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    actor       VARBINARY(255)  NOT NULL,
    action      VARBINARY(16)   NOT NULL,
    reason      VARBINARY(4000) NOT NULL,
    group_id    VARBINARY(255)  NOT NULL,
    topic       VARBINARY(249)  NOT NULL,
    `partition` INT             NOT NULL,
    from_offset BIGINT,
    to_offset   BIGINT,
    topic_id    VARBINARY(22)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

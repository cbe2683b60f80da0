-- A log from which rows are deleted once they are published: no function here says what a snapshot sees. Rows are never
-- updated. The clustered index keeps a shard's rows together, in the order of their ids; AUTO_INCREMENT asks for an index that
-- begins with its column. Texts are bytes: no collation may take two topics for one. Times are UTC.
CREATE TABLE leastlock_outbox (
    shard       SMALLINT       NOT NULL,
    id          BIGINT         NOT NULL AUTO_INCREMENT,
    event_id    VARBINARY(36)  NOT NULL,
    topic       VARBINARY(249) NOT NULL,
    `key`       LONGBLOB,
    value       LONGBLOB,
    headers     LONGTEXT       CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ('[]'),
    `partition` INT,
    created_at  DATETIME(6)    NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (shard, id),
    KEY leastlock_outbox_id (id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- One row a shard: who reads it.
CREATE TABLE leastlock_outbox_shard (
    shard       SMALLINT      NOT NULL PRIMARY KEY,
    owner       VARBINARY(64),
    lease_until DATETIME(6),
    epoch       BIGINT        NOT NULL DEFAULT 0
) ENGINE = InnoDB;

INSERT INTO leastlock_outbox_shard (shard)
VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15);

CREATE TABLE leastlock_outbox_parked (
    shard       SMALLINT        NOT NULL,
    id          BIGINT          NOT NULL,
    event_id    VARBINARY(36)   NOT NULL,
    topic       VARBINARY(249)  NOT NULL,
    `key`       LONGBLOB,
    value       LONGBLOB,
    headers     LONGTEXT        CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `partition` INT,
    created_at  DATETIME(6)     NOT NULL,
    parked_at   DATETIME(6)     NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    reason      VARBINARY(4000) NOT NULL,
    PRIMARY KEY (shard, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

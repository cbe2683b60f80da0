-- Keys are bytes: no collation may take two of them for one. Times are UTC.
CREATE TABLE leastlock_idempotency (
    scope            VARBINARY(512) NOT NULL,
    idempotency_key  VARBINARY(255) NOT NULL,
    fingerprint      VARBINARY(32)  NOT NULL,
    state            VARBINARY(16)  NOT NULL,
    generation       BIGINT         NOT NULL DEFAULT 1,
    lease_until      DATETIME(6),
    recovery_point   VARBINARY(255),
    step_data        LONGBLOB,
    response_status  INT,
    response_headers LONGBLOB,
    response_body    LONGBLOB,
    created_at       DATETIME(6)    NOT NULL,
    expires_at       DATETIME(6)    NOT NULL,
    PRIMARY KEY (scope, idempotency_key),
    KEY leastlock_idempotency_expires_at (expires_at)
) ENGINE = InnoDB

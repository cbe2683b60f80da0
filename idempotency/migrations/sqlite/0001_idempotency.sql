-- Times are integers: milliseconds since 1970-01-01 UTC.
CREATE TABLE leastlock_idempotency (
    scope            TEXT    NOT NULL,
    idempotency_key  TEXT    NOT NULL,
    fingerprint      BLOB    NOT NULL,
    state            TEXT    NOT NULL,
    generation       INTEGER NOT NULL DEFAULT 1,
    lease_until      INTEGER,
    recovery_point   TEXT,
    step_data        BLOB,
    response_status  INTEGER,
    response_headers BLOB,
    response_body    BLOB,
    created_at       INTEGER NOT NULL,
    expires_at       INTEGER NOT NULL,
    PRIMARY KEY (scope, idempotency_key)
) WITHOUT ROWID;

CREATE INDEX leastlock_idempotency_expires_at ON leastlock_idempotency (expires_at);

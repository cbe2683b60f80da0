CREATE TABLE leastlock_idempotency (
    scope            text        NOT NULL,
    idempotency_key  text        NOT NULL,
    fingerprint      bytea       NOT NULL,
    state            text        NOT NULL,
    generation       bigint      NOT NULL DEFAULT 1,
    lease_until      timestamptz,
    recovery_point   text,
    step_data        bytea,
    response_status  integer,
    response_headers bytea,
    response_body    bytea,
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    PRIMARY KEY (scope, idempotency_key)
);

CREATE INDEX leastlock_idempotency_expires_at ON leastlock_idempotency (expires_at);

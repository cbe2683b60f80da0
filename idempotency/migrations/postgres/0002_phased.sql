-- The phased mode: who owns a claim, how often its steps were written, until when they may start, why it is held, and when
-- its provider is asked again.
ALTER TABLE leastlock_idempotency
    ADD COLUMN owner_token   bytea,
    ADD COLUMN step_seq      bigint NOT NULL DEFAULT 0,
    ADD COLUMN start_by      timestamptz,
    ADD COLUMN hold_reason   text,
    ADD COLUMN unknown_since timestamptz,
    ADD COLUMN asks          bigint NOT NULL DEFAULT 0,
    ADD COLUMN ask_after     timestamptz;

CREATE INDEX leastlock_idempotency_unfinished ON leastlock_idempotency (state, lease_until)
    WHERE state IN ('running', 'held');

-- Who resolved what. A row is written in the transaction of its resolution and never changed.
CREATE TABLE leastlock_idempotency_audit (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope           text        NOT NULL,
    idempotency_key text        NOT NULL,
    generation      bigint      NOT NULL,
    step            text,
    outcome         text        NOT NULL,
    resolved_by     text        NOT NULL,
    reason          text        NOT NULL,
    resolved_at     timestamptz NOT NULL
);

CREATE INDEX leastlock_idempotency_audit_key ON leastlock_idempotency_audit (scope, idempotency_key);

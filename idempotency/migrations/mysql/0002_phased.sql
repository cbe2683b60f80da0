-- The phased mode: who owns a claim, how often its steps were written, until when they may start, why it is held, and when
-- its provider is asked again.
ALTER TABLE leastlock_idempotency
    ADD COLUMN owner_token   VARBINARY(16),
    ADD COLUMN step_seq      BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN start_by      DATETIME(6),
    ADD COLUMN hold_reason   VARBINARY(1024),
    ADD COLUMN unknown_since DATETIME(6),
    ADD COLUMN asks          BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN ask_after     DATETIME(6),
    ADD KEY leastlock_idempotency_unfinished (state, lease_until);

-- Who resolved what. A row is written in the transaction of its resolution and never changed.
CREATE TABLE leastlock_idempotency_audit (
    id              BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    scope           VARBINARY(512)  NOT NULL,
    idempotency_key VARBINARY(255)  NOT NULL,
    generation      BIGINT          NOT NULL,
    step            VARBINARY(64),
    outcome         VARBINARY(32)   NOT NULL,
    resolved_by     VARBINARY(255)  NOT NULL,
    reason          VARBINARY(4000) NOT NULL,
    resolved_at     DATETIME(6)     NOT NULL,
    KEY leastlock_idempotency_audit_key (scope, idempotency_key)
) ENGINE = InnoDB

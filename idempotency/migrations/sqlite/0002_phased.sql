-- The phased mode: who owns a claim, how often its steps were written, until when they may start, why it is held, and when
-- its provider is asked again.
ALTER TABLE leastlock_idempotency ADD COLUMN owner_token   BLOB;
ALTER TABLE leastlock_idempotency ADD COLUMN step_seq      INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leastlock_idempotency ADD COLUMN start_by      INTEGER;
ALTER TABLE leastlock_idempotency ADD COLUMN hold_reason   TEXT;
ALTER TABLE leastlock_idempotency ADD COLUMN unknown_since INTEGER;
ALTER TABLE leastlock_idempotency ADD COLUMN asks          INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leastlock_idempotency ADD COLUMN ask_after     INTEGER;

CREATE INDEX leastlock_idempotency_unfinished ON leastlock_idempotency (state, lease_until)
    WHERE state IN ('running', 'held');

-- Who resolved what. A row is written in the transaction of its resolution and never changed.
CREATE TABLE leastlock_idempotency_audit (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    scope           TEXT    NOT NULL,
    idempotency_key TEXT    NOT NULL,
    generation      INTEGER NOT NULL,
    step            TEXT,
    outcome         TEXT    NOT NULL,
    resolved_by     TEXT    NOT NULL,
    reason          TEXT    NOT NULL,
    resolved_at     INTEGER NOT NULL
);

CREATE INDEX leastlock_idempotency_audit_key ON leastlock_idempotency_audit (scope, idempotency_key);

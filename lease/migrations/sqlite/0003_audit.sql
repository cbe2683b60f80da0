-- Who took a lock away from its holder. In a store in this database the row is written in the transaction of its release, and has
-- its outcome. For another store it is written before, as the intent, and gets its outcome after: an intent without one is
-- unknown, and whether it took effect shows at the store, where `operation` is the owner's nonce if it did.
CREATE TABLE leastlock_audit (
    audit_id       INTEGER PRIMARY KEY AUTOINCREMENT,
    operation      BLOB    NOT NULL UNIQUE CHECK (length(operation) = 16),
    action         TEXT    NOT NULL CHECK (action = 'force-release'),
    lock_name      TEXT    NOT NULL,
    fencing_seq    INTEGER NOT NULL CHECK (fencing_seq > 0),
    approver       TEXT    NOT NULL,
    reason         TEXT    NOT NULL,
    approved_until INTEGER NOT NULL,
    written_at     INTEGER NOT NULL,
    outcome        TEXT CHECK (outcome IN ('released', 'changed', 'approval-expired')),
    raised_to      INTEGER,
    settled_at     INTEGER
)

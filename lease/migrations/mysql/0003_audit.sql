-- Who took a lock away from its holder. In a store in this database the row is written in the transaction of its release, and has
-- its outcome. For another store it is written before, as the intent, and gets its outcome after: an intent without one is
-- unknown, and whether it took effect shows at the store, where `operation` is the owner's nonce if it did.
CREATE TABLE leastlock_audit (
    audit_id       BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    operation      VARBINARY(16)   NOT NULL UNIQUE CHECK (LENGTH(operation) = 16),
    action         VARBINARY(32)   NOT NULL CHECK (action = 'force-release'),
    lock_name      VARBINARY(200)  NOT NULL,
    fencing_seq    BIGINT          NOT NULL CHECK (fencing_seq > 0),
    approver       VARBINARY(200)  NOT NULL,
    reason         VARBINARY(1000) NOT NULL,
    approved_until DATETIME(6)     NOT NULL,
    written_at     DATETIME(6)     NOT NULL,
    outcome        VARBINARY(32) CHECK (outcome IN ('released', 'changed', 'approval-expired')),
    raised_to      BIGINT,
    settled_at     DATETIME(6)
) ENGINE = InnoDB

-- Who took a lock away from its holder. In a store in this database the row is written in the transaction of its release, and has
-- its outcome. For another store it is written before, as the intent, and gets its outcome after: an intent without one is
-- unknown, and whether it took effect shows at the store, where `operation` is the owner's nonce if it did.
CREATE TABLE leastlock_audit (
    audit_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation      bytea            NOT NULL UNIQUE CHECK (octet_length(operation) = 16),
    action         text             NOT NULL CHECK (action = 'force-release'),
    lock_name      text COLLATE "C" NOT NULL,
    fencing_seq    bigint           NOT NULL CHECK (fencing_seq > 0),
    approver       text             NOT NULL,
    reason         text             NOT NULL,
    approved_until timestamptz      NOT NULL,
    written_at     timestamptz      NOT NULL,
    outcome        text CHECK (outcome IN ('released', 'changed', 'approval-expired')),
    raised_to      bigint,
    settled_at     timestamptz
)

-- In the transaction of the release that it tells of, or, without an outcome, in its own before one at another store.
INSERT INTO leastlock_audit
    (operation, action, lock_name, fencing_seq, approver, reason, approved_until, written_at, outcome, raised_to, settled_at)
VALUES
    (?1, 'force-release', ?2, ?3, ?4, ?5, ?6, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), ?7, ?8,
     CASE WHEN ?7 IS NOT NULL THEN CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) END)

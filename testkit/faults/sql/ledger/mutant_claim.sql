-- The first step of a seal: nobody share-locks the row.
UPDATE ledger_gate SET epoch = epoch + 1 WHERE partition = $1 RETURNING epoch

-- Locks the account's row until the transaction ends, so effects of an account are numbered in the order of their commits. READ COMMITTED.
UPDATE ledger_account SET balance = balance + $2 WHERE account = $1

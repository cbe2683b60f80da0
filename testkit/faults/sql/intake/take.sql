-- Locks the row of the item until the end of the transaction, so what it numbers is in the order of commits. Right at READ COMMITTED: the condition is judged
-- on the row as it is once the lock is held.
UPDATE intake_stock SET units = units - $1, moves = moves + 1 WHERE item = $2 AND units >= $3

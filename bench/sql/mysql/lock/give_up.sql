-- Lock: the row, exclusively, for this one statement, which is its own transaction. Right at every isolation level.
DELETE FROM plain_lock WHERE name = ? AND owner = ?

-- Lock: SQLite's one write lock, for this one statement, which is its own transaction.
DELETE FROM plain_lock WHERE name = $1 AND owner = $2

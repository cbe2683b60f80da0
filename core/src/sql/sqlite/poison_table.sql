-- Takes no lock in the application's files: the temporary schema belongs to the connection, and whatever ends the
-- transaction (or the savepoint) without committing takes the table along. Right in every kind of transaction.
CREATE TEMPORARY TABLE IF NOT EXISTS leastlock_poison (
    id INTEGER PRIMARY KEY,
    nowhere INTEGER NOT NULL REFERENCES leastlock_poison (id) DEFERRABLE INITIALLY DEFERRED
)

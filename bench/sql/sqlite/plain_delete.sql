-- Lock: SQLite's one write lock for this one statement. Ids follow the order of commits, so there is nothing below the last
-- one that was published and is not.
DELETE FROM plain_outbox WHERE id <= ?

-- Lock: SQLite's one write lock; run before the clients.
CREATE TABLE plain_outbox (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL,
    topic    TEXT NOT NULL,
    key      BLOB NOT NULL,
    value    BLOB NOT NULL
)

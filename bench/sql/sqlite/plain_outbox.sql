-- Lock: SQLite's one write lock; run before the clients.
CREATE TABLE plain_outbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id     TEXT NOT NULL,
    topic        TEXT NOT NULL,
    record_key   BLOB NOT NULL,
    record_value BLOB NOT NULL
)

CREATE TABLE plain_lock (name text PRIMARY KEY, owner bytea NOT NULL, until timestamptz NOT NULL)

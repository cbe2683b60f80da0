-- Lock: the new row, exclusively, for this one statement, which is its own transaction; 1062 is somebody else's lock. Right at
-- every isolation level.
INSERT INTO plain_lock (name, owner, until) VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND)

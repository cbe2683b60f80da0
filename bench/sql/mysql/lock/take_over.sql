-- Lock: the row, exclusively, for this one statement, which is its own transaction. Right at every isolation level. A lock whose
-- owner died is taken over when its time is up.
UPDATE plain_lock SET owner = ?, until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND
WHERE name = ? AND until <= UTC_TIMESTAMP(6)

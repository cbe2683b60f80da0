-- Under the lock that take.sql holds.
SELECT moves FROM intake_stock WHERE item = $1

-- Under the lock that take_mysql.sql holds.
SELECT moves FROM intake_stock WHERE item = ?

-- Lock: none; it reads and writes nothing. A transaction for sqlx to roll back, in place of the one that has ended.
BEGIN

-- A movement of one row that came alone, in one statement and no transaction around it. Takes the row's lock if it is free. On
-- MariaDB it never waits for it (0 s, for this statement only) and fails (1205), and the movement goes the long way; MySQL
-- does not read that comment, and waits as long as the connection says. Right at every isolation level: an UPDATE judges its
-- condition on the row as it is when it is locked. The parameters: delta, negative for what is taken; key; delta, delta, floor.
/*M! SET STATEMENT innodb_lock_wait_timeout = 0 FOR */
UPDATE {table} SET {units} = {units} + ? WHERE {key} = ? AND (? >= 0 OR {units} + ? >= ?)

-- Lock: none. Whether the server undoes the whole transaction when a lock is not had in time, instead of the statement.
SELECT CAST(@@innodb_rollback_on_timeout AS SIGNED)

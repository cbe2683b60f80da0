-- Who keeps a waiting seal from going on, run on another connection. Needs the privilege PROCESS.
-- Lock: none.
SELECT DISTINCT CAST(blocking.trx_mysql_thread_id AS SIGNED),
       coalesce(session.command, 'unknown'),
       CAST(TIMESTAMPDIFF(MICROSECOND, blocking.trx_started, NOW(6)) DIV 1000 AS SIGNED)
  FROM information_schema.INNODB_TRX AS waiting
  JOIN information_schema.INNODB_LOCK_WAITS AS wait ON wait.requesting_trx_id = waiting.trx_id
  JOIN information_schema.INNODB_TRX AS blocking ON blocking.trx_id = wait.blocking_trx_id
  LEFT JOIN information_schema.PROCESSLIST AS session ON session.id = blocking.trx_mysql_thread_id
 WHERE waiting.trx_mysql_thread_id = ?

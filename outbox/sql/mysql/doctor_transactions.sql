-- Lock: none. The age in ms of the oldest transaction. Needs the privilege PROCESS: without it MariaDB shows none, and MySQL answers
-- with an error.
SELECT CAST(max(TIMESTAMPDIFF(MICROSECOND, trx_started, NOW(6)) DIV 1000) AS SIGNED)
FROM information_schema.INNODB_TRX

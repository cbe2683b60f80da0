-- Takes no lock, and is its own transaction: it sees what is committed.
SELECT owner_token,
       GREATEST(0, TIMESTAMPDIFF(MICROSECOND, began_at, completed_at) DIV 1000),
       GREATEST(0, TIMESTAMPDIFF(MICROSECOND, completed_at, UTC_TIMESTAMP(6)) DIV 1000)
FROM leastlock_once
WHERE job = ? AND period = ?

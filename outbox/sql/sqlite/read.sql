-- Lock: none; one plain read of the last commit. Ids follow commit order under the one write lock, so nothing can appear
-- below the cursor.
SELECT id, event_id, topic, key, value, headers, partition,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - created_at
FROM leastlock_outbox
WHERE id > $1
ORDER BY id
LIMIT $2

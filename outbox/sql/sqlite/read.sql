-- Lock: none; one plain read of the last commit. Ids follow commit order under the one write lock, so nothing can appear
-- below the cursor. What takes more than $3 bytes comes without its value and headers. The length of a text is in characters: that of
-- the headers is taken as a blob's.
SELECT id, event_id, topic, key,
       CASE WHEN coalesce(length(key), 0) + coalesce(length(value), 0) + length(CAST(headers AS BLOB)) <= $3 THEN value END,
       CASE WHEN coalesce(length(key), 0) + coalesce(length(value), 0) + length(CAST(headers AS BLOB)) <= $3 THEN headers END,
       partition,
       CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - created_at,
       coalesce(length(key), 0) + coalesce(length(value), 0) + length(CAST(headers AS BLOB))
FROM leastlock_outbox
WHERE id > $1
ORDER BY id
LIMIT $2

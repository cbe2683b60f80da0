-- Lock: none: the write at the end of the step's transaction decides whose the key is. This one, in the same transaction, only
-- refuses a step that would begin after the request has expired.
SELECT 1::bigint
FROM leastlock_idempotency
WHERE scope = $1 AND idempotency_key = $2 AND generation = $3 AND owner_token = $4 AND state = 'running'
  AND (start_by IS NULL OR start_by > clock_timestamp())

-- Lock: none: the write at the end of the step's transaction decides whose the key is. This one, in the same transaction, only
-- refuses a step that would begin after the request has expired.
SELECT 1
FROM leastlock_idempotency
WHERE scope = ? AND idempotency_key = ? AND generation = ? AND owner_token = ? AND state = 'running'
  AND (start_by IS NULL OR start_by > UTC_TIMESTAMP(6))

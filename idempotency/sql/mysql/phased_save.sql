-- Lock: the record's row until the end of the transaction, which is this statement's own or that of a local step; a claimant
-- that comes meanwhile waits, and then sees the step. Right at every isolation level: the generation is the fence.
-- The sequence refuses an earlier write that was given up unanswered and arrives only now.
UPDATE leastlock_idempotency
SET step_data = ?, recovery_point = ?, step_seq = step_seq + 1, lease_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND
WHERE scope = ? AND idempotency_key = ? AND generation = ? AND owner_token = ? AND state = 'running'
  AND step_seq = ?

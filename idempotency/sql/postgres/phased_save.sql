-- Lock: the record's row until the end of the transaction, which is this statement's own or that of a local step; a claimant
-- that comes meanwhile waits, and then sees the step. Right at every isolation level: the generation is the fence.
-- The sequence refuses an earlier write that was given up unanswered and arrives only now.
-- An owner that stops between this and its commit is ended by the server after its lease; a stricter idle time-out stays.
WITH limits AS MATERIALIZED (
    SELECT set_config(
        'idle_in_transaction_session_timeout',
        CASE WHEN extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000
                  BETWEEN 1 AND $3::bigint
             THEN current_setting('idle_in_transaction_session_timeout')
             ELSE $3::bigint::text END,
        true)
)
UPDATE leastlock_idempotency
SET step_data = $1, recovery_point = $2, step_seq = step_seq + 1,
    lease_until = clock_timestamp() + $3::bigint * interval '1 millisecond'
FROM limits
WHERE scope = $4 AND idempotency_key = $5 AND generation = $6 AND owner_token = $7 AND state = 'running'
  AND step_seq = $8::bigint

-- Share-locks the guard row until the caller's transaction ends, so that a seal waits for it; the gate row is only read,
-- so that newcomers of an old generation stop there. Under READ COMMITTED a row that a seal changed while this waited is
-- compared again as it is then; at stricter levels that is a serialization failure instead, which is as safe.
-- The lock must not outlive a stopped process, so the same statement bounds idling in the transaction, and never loosens a
-- bound that is stricter already.
SELECT fence.generation::bigint,
       set_config(
           'idle_in_transaction_session_timeout',
           CASE WHEN extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000
                     BETWEEN 1 AND $4::bigint
                THEN current_setting('idle_in_transaction_session_timeout')
                ELSE $4::bigint::text END,
           true)
FROM leastlock_fence AS fence
JOIN leastlock_fence_gate AS gate ON gate.resource = fence.resource
WHERE fence.resource = $1::text
  AND fence.generation = $2::bigint AND fence.owner_token = $3::bytea
  AND gate.generation = $2::bigint AND gate.owner_token = $3::bytea
FOR SHARE OF fence

-- Takes the marker's unique key until the work's transaction ends, before anything else is done in it. Who has marked the period
-- already is waited for: if it commits there is no row, if it rolls back the mark is this one's. Right at READ COMMITTED; at
-- stricter levels the second gets a serialization failure instead, which is as safe. The lock must not outlive a stopped process,
-- so the same statement bounds idling in the transaction, and never loosens a bound that is stricter already.
INSERT INTO leastlock_once (job, period, owner_token, began_at, completed_at)
VALUES ($1::text, $2::text, $3::bytea, clock_timestamp(), clock_timestamp())
ON CONFLICT (job, period) DO NOTHING
RETURNING 1::bigint,
          set_config(
              'idle_in_transaction_session_timeout',
              CASE WHEN extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000
                        BETWEEN 1 AND $4::bigint
                   THEN current_setting('idle_in_transaction_session_timeout')
                   ELSE $4::bigint::text END,
              true)

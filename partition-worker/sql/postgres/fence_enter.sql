-- The fence: the first statement of a handler's transaction.
-- Lock: the guard row FOR SHARE until the transaction ends, so that a seal and a fold wait for it. FOR KEY SHARE would not do:
-- a fold, which changes no key, would run beside it, and the insert would wait for the fold's delete and then succeed.
-- READ COMMITTED: the gate is read in the statement's snapshot, and epoch and next_offset are compared inside the locked scan,
-- that is, in the row as it is once locked: a statement that began before the gate was raised either gets its lock before
-- the seal does, and is waited for, or finds another epoch. A comparison outside the locked scan would be one with the snapshot.
-- The idle time-out goes with the lock: a process that stops while it holds the lock holds it no longer than that.
WITH guard AS MATERIALIZED (
    SELECT set_config('idle_in_transaction_session_timeout', ($6::bigint)::text, true) AS idle_timeout
      FROM leastlock_partition AS partition_guard
     WHERE partition_guard.group_id = $1 AND partition_guard.topic = $2 AND partition_guard.partition = $3::integer
       AND partition_guard.epoch = $4 AND partition_guard.next_offset <= $5
       AND EXISTS (SELECT FROM leastlock_partition_gate AS gate
                    WHERE gate.group_id = $1 AND gate.topic = $2 AND gate.partition = $3::integer AND gate.epoch = $4)
       FOR SHARE OF partition_guard
)
INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset)
SELECT $1, $2, $3::integer, $5 FROM guard WHERE guard.idle_timeout IS NOT NULL
ON CONFLICT (group_id, topic, partition, record_offset) DO NOTHING

-- The fence for records whose offsets are finished: those that leave a released queue. It marks nothing.
-- Lock: the guard row FOR SHARE until the transaction ends, so that a seal waits for it.
-- READ COMMITTED: as for fence_enter.sql, the gate is read in the statement's snapshot, and the epoch is compared in the row as it is once
-- locked. The idle time-out goes with the lock.
WITH guard AS MATERIALIZED (
    SELECT epoch
      FROM leastlock_partition AS partition_guard
     WHERE partition_guard.group_id = $1 AND partition_guard.topic = $2 AND partition_guard.partition = $3::integer
       AND partition_guard.epoch = $4
       AND EXISTS (SELECT FROM leastlock_partition_gate AS gate
                    WHERE gate.group_id = $1 AND gate.topic = $2 AND gate.partition = $3::integer AND gate.epoch = $4)
       FOR SHARE OF partition_guard
)
SELECT epoch, set_config('idle_in_transaction_session_timeout', ($5::bigint)::text, true) FROM guard

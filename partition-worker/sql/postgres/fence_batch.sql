-- The fence of many records: the first statement of a batch's transaction. It has let the batch in if it inserts every offset.
-- Lock: the guard row FOR SHARE until the transaction ends, and READ COMMITTED, as in fence_enter.sql and for its reasons:
-- the gate is read in the statement's snapshot, the epoch is compared inside the locked scan, and the next_offset that the
-- offsets are compared with comes out of it, so it is that of the row as it is once locked.
-- The offsets are sorted, so that two batches that meet at the unique key wait for each other in one order.
WITH guard AS MATERIALIZED (
    SELECT partition_guard.next_offset,
           set_config('idle_in_transaction_session_timeout', ($6::bigint)::text, true) AS idle_timeout
      FROM leastlock_partition AS partition_guard
     WHERE partition_guard.group_id = $1 AND partition_guard.topic = $2 AND partition_guard.partition = $3::integer
       AND partition_guard.epoch = $4
       AND EXISTS (SELECT FROM leastlock_partition_gate AS gate
                    WHERE gate.group_id = $1 AND gate.topic = $2 AND gate.partition = $3::integer AND gate.epoch = $4)
       FOR SHARE OF partition_guard
)
INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset)
SELECT $1, $2, $3::integer, asked.record_offset
  FROM guard CROSS JOIN unnest(string_to_array($5, ',')::bigint[]) AS asked (record_offset)
 WHERE guard.idle_timeout IS NOT NULL AND guard.next_offset <= asked.record_offset
ON CONFLICT (group_id, topic, partition, record_offset) DO NOTHING

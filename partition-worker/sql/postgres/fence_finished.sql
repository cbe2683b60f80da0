-- Which of these offsets are finished, after a batch's fence did not let all of them in. No row: the epoch is not the newest,
-- or no start is fixed. The first row says only that it is.
-- Lock: none. READ COMMITTED: a snapshot younger than whatever the fence has waited for, and what is finished stays so.
WITH guard AS MATERIALIZED (
    SELECT guard.next_offset
      FROM leastlock_partition AS guard
      JOIN leastlock_partition_gate AS gate USING (group_id, topic, partition)
     WHERE guard.group_id = $1 AND guard.topic = $2 AND guard.partition = $3::integer
       AND guard.epoch = $4 AND gate.epoch = $4 AND guard.next_offset IS NOT NULL
)
SELECT NULL::bigint FROM guard
UNION ALL
SELECT asked.record_offset
  FROM guard CROSS JOIN unnest(string_to_array($5, ',')::bigint[]) AS asked (record_offset)
 WHERE asked.record_offset < guard.next_offset
    OR EXISTS (SELECT FROM leastlock_partition_done AS done
                WHERE done.group_id = $1 AND done.topic = $2 AND done.partition = $3::integer
                  AND done.record_offset = asked.record_offset)

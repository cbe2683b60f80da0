-- Which of these offsets are finished, after a batch's fence did not let all of them in. No row: the epoch is not the newest,
-- or no start is fixed. The first row says only that it is.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
WITH guard AS (
    SELECT guard.next_offset
      FROM leastlock_partition AS guard
      JOIN leastlock_partition_gate AS gate USING (group_id, topic, partition)
     WHERE guard.group_id = ?1 AND guard.topic = ?2 AND guard.partition = ?3
       AND guard.epoch = ?4 AND gate.epoch = ?4 AND guard.next_offset IS NOT NULL
)
SELECT NULL FROM guard
UNION ALL
SELECT asked.value
  FROM guard JOIN json_each('[' || ?5 || ']') AS asked
 WHERE asked.value < guard.next_offset
    OR EXISTS (SELECT 1 FROM leastlock_partition_done AS done
                WHERE done.group_id = ?1 AND done.topic = ?2 AND done.partition = ?3 AND done.record_offset = asked.value)

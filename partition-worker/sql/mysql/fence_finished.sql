-- Which of these offsets are finished, after a batch's fence did not let all of them in. No row: the epoch is not the newest,
-- or no start is fixed. A row without an offset says only that it is.
-- Lock: none. READ COMMITTED: a snapshot younger than whatever the fence has waited for, and what is finished stays so.
SELECT asked.record_offset
  FROM (SELECT group_id, topic, `partition`, epoch
          FROM leastlock_partition_gate
         WHERE group_id = ? AND topic = ? AND `partition` = ? AND epoch = ?
         LIMIT 1) AS gate
  JOIN leastlock_partition AS guard
    ON guard.group_id = gate.group_id AND guard.topic = gate.topic AND guard.`partition` = gate.`partition`
   AND guard.epoch = gate.epoch AND guard.next_offset IS NOT NULL
  LEFT JOIN JSON_TABLE(CONCAT('[', ?, ']'), '$[*]' COLUMNS (record_offset BIGINT PATH '$')) AS asked
    ON asked.record_offset < guard.next_offset
    OR EXISTS (SELECT 1 FROM leastlock_partition_done AS done
                WHERE done.group_id = guard.group_id AND done.topic = guard.topic
                  AND done.`partition` = guard.`partition` AND done.record_offset = asked.record_offset)

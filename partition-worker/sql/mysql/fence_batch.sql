-- The fence of many records: the first statement of a batch's transaction. It has let the batch in if it inserts every offset.
-- The last parameter, an idle time-out, was set by begin.sql.
-- Lock: the guard row, shared, until the transaction ends, then the new rows; the gate is read without a lock. READ COMMITTED.
-- All as in fence_enter.sql and for its reasons. 1062: one of the records is finished, and nothing is inserted; the offsets
-- are sorted, so that two batches that meet at the unique key wait for each other in one order.
INSERT INTO leastlock_partition_done (group_id, topic, `partition`, record_offset)
SELECT guard.group_id, guard.topic, guard.`partition`, asked.record_offset
  FROM (SELECT group_id, topic, `partition`, epoch
          FROM leastlock_partition_gate
         WHERE group_id = ? AND topic = ? AND `partition` = ? AND epoch = ?
         LIMIT 1) AS gate
  STRAIGHT_JOIN leastlock_partition AS guard
    ON guard.group_id = gate.group_id AND guard.topic = gate.topic AND guard.`partition` = gate.`partition`
   AND guard.epoch = gate.epoch
  STRAIGHT_JOIN JSON_TABLE(CONCAT('[', ?, ']'), '$[*]' COLUMNS (record_offset BIGINT PATH '$')) AS asked
 WHERE guard.next_offset <= asked.record_offset AND ? >= 0
  LOCK IN SHARE MODE

-- The second step of the first seal. Lock: the new row; the gate is read without one. READ COMMITTED. No row: the gate has moved
-- on. 1062: there is a guard. Never INSERT IGNORE.
/*M!100600 SET STATEMENT max_statement_time = COALESCE(CAST(@leastlock_wait_s AS DECIMAL(20, 3)), 0) FOR */
INSERT INTO leastlock_partition (owner, group_id, topic, `partition`, epoch, sealed_at)
SELECT ?, group_id, topic, `partition`, epoch, UTC_TIMESTAMP(6)
  FROM leastlock_partition_gate
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND epoch = ?

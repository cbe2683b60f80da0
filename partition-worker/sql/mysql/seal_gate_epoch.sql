-- The epoch that this transaction has claimed. Lock: none beyond the gate row, which it holds.
SELECT epoch
  FROM leastlock_partition_gate
 WHERE group_id = ? AND topic = ? AND `partition` = ?

-- The record is finished.
-- Lock: the row that goes. In the transaction that marks the record as finished, behind the guard row.
DELETE FROM leastlock_partition_suspect
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND record_offset = ?

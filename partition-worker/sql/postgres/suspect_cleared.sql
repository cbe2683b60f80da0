-- The record is finished.
-- Lock: the row that goes. In the transaction that marks the record as finished, behind the guard row.
DELETE FROM leastlock_partition_suspect
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND record_offset = $4

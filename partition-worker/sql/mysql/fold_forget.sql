-- The second step of a fold: rows that next_offset now stands for, the first so many of them.
-- Lock: the rows that go, and the guard row, which is share-locked since the statement before: while the epoch is this owner's, no
-- handler inserts below the watermark. READ COMMITTED, so no gap is locked.
DELETE FROM leastlock_partition_done
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND record_offset < ?
 ORDER BY record_offset
 LIMIT ?

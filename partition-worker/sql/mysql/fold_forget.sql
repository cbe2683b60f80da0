-- The second step of a fold: the rows that next_offset now stands for.
-- Lock: the rows that go. READ COMMITTED, so no gap is locked; the guard row is held since the step before, so no handler
-- inserts below the watermark.
DELETE FROM leastlock_partition_done
 WHERE group_id = ? AND topic = ? AND `partition` = ? AND record_offset < ?

-- The second step of a fold: the rows that next_offset now stands for.
-- Lock: the rows that go. READ COMMITTED; the guard row is held since the step before, so no handler inserts below $4.
DELETE FROM leastlock_partition_done
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND record_offset < $4

-- Records that no death is held against, and that do not run.
-- Lock: the rows that go; the tenure's is held already (tenure_lock.sql).
DELETE FROM leastlock_partition_suspect
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND deaths = 0

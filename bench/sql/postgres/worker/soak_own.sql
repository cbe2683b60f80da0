-- For the soak's double, which has no owner that is sealed: whoever comes first is noted.
-- Lock: the row, if it is new. READ COMMITTED: a second one finds it there.
INSERT INTO leastlock_partition (group_id, topic, partition, epoch, owner)
VALUES ($1, $2, $3::integer, 1, $4)
ON CONFLICT (group_id, topic, partition) DO NOTHING

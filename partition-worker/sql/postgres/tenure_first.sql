-- The first owner of a partition begins.
-- Lock: the new row. The guard row was raised before, so an owner that came earlier is fenced.
INSERT INTO leastlock_partition_tenure (group_id, topic, partition, epoch, ended, suspects)
VALUES ($1, $2, $3::integer, $4, false, 0)

-- The first step of the first seal. Lock: the new row. 1062: somebody else was first, and is counted on from. Never INSERT IGNORE.
INSERT INTO leastlock_partition_gate (group_id, topic, `partition`, epoch, owner)
VALUES (?, ?, ?, 1, ?)

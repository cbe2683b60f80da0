-- Lock: none beyond the new row; in the transaction of the action, so that neither is there without the other.
INSERT INTO leastlock_partition_audit (group_id, topic, partition, action, actor, reason, from_offset, to_offset, topic_id)
VALUES ($1, $2, $3::integer, $4, $5, $6, $7, $8, $9)

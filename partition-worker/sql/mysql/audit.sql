-- Lock: none beyond the new row; in the transaction of the action, so that neither is there without the other.
INSERT INTO leastlock_partition_audit (group_id, topic, `partition`, action, actor, reason, from_offset, to_offset, topic_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

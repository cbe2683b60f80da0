-- Parks a key, or one record alone.
-- Lock: the new row. READ COMMITTED; in the transaction that marks the record as finished, behind the guard row, so that only the
-- partition's owner does it.
INSERT INTO leastlock_partition_parked
       (group_id, topic, `partition`, queue, record_key, blocks, parking_topic, cause, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

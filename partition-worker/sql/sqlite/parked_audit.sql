-- Who did what, in the transaction of the action, so that neither is there without the other.
-- Lock: none beyond the new row.
INSERT INTO leastlock_partition_parked_audit
       (actor, action, reason, group_id, topic, partition, queue, record_key, record_offset, records)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)

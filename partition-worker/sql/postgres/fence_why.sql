-- Why the fence let nobody in: is the epoch still the newest, and is the record finished?
-- Lock: none. READ COMMITTED: a snapshot of its own, younger than whatever the fence has waited for.
SELECT (gate.epoch = $4 AND guard.epoch = $4)::integer::bigint,
       (guard.next_offset > $5
        OR EXISTS (SELECT FROM leastlock_partition_done AS done
                    WHERE done.group_id = $1 AND done.topic = $2 AND done.partition = $3::integer
                      AND done.record_offset = $5))::integer::bigint
  FROM leastlock_partition AS guard
  JOIN leastlock_partition_gate AS gate USING (group_id, topic, partition)
 WHERE guard.group_id = $1 AND guard.topic = $2 AND guard.partition = $3::integer

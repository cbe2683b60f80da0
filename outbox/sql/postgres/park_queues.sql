-- Lock: the queues' rows, in the order of their names, as every statement that locks several does. Isolation: READ COMMITTED, in the
-- transaction of note.sql, whose lock on the shard's row is the fence. The update changes nothing: it is there to hold the row,
-- so that an operator who takes a queue's last event away does not remove the queue from under the event that is parked now.
-- A queue that an event is parked *behind* and that is not there any more has been drained since: its event is sent at once.
INSERT INTO leastlock_outbox_parked_queue AS q (queue, shard, topic, key, blocks, state, asked_at)
SELECT DISTINCT ON (p.queue COLLATE "C")
       p.queue, o.shard, o.topic, o.key, p.blocks <> 0,
       CASE WHEN p.refused <> 0 THEN 'parked' ELSE 'retrying' END,
       CASE WHEN p.refused <> 0 THEN NULL ELSE clock_timestamp() END
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[]) AS p (shard, id, queue, blocks, refused)
JOIN leastlock_outbox AS o ON o.shard = p.shard::smallint AND o.id = p.id
ORDER BY p.queue COLLATE "C", p.refused DESC
ON CONFLICT (queue) DO UPDATE SET shard = q.shard

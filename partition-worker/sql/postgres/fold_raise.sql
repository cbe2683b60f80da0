-- The first step of a fold: everything below $5 is finished.
-- Lock: the guard row FOR NO KEY UPDATE until the transaction ends. It conflicts with the FOR SHARE of open handlers, so a
-- handler of a folded record that starts now waits and then finds next_offset above its own. The wait is bounded by a
-- lock_timeout that holds from within this statement; the owner has paused its handlers, so it is not expected to wait at
-- all. READ COMMITTED: only the owner of the epoch in the locked row changes anything.
WITH bound AS MATERIALIZED (
    SELECT set_config('lock_timeout', ($6::bigint)::text, true) AS lock_timeout
)
UPDATE leastlock_partition AS guard
   SET next_offset = $5
  FROM bound
 WHERE bound.lock_timeout IS NOT NULL
   AND guard.group_id = $1 AND guard.topic = $2 AND guard.partition = $3::integer
   AND guard.epoch = $4 AND guard.next_offset < $5

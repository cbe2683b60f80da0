-- Lock: the rows changed; the table is locked by rebase_lock.sql. Whatever is not certainly published becomes this transaction's, so
-- that the next read finds it, in the order of the ids. Certain is what the shard's snapshot saw, or its window had behind it, in the
-- transaction ids of the database that published it; an id above seen_id may be of a row appended since the restore, whose
-- transaction id only looks as if.
UPDATE leastlock_outbox AS o
SET xid = pg_current_xact_id()
FROM leastlock_outbox_shard AS s
WHERE s.shard = o.shard
  AND (o.id > s.seen_id
       OR NOT (pg_visible_in_snapshot(o.xid, s.done)
               OR coalesce(o.id <= s.last_id AND pg_visible_in_snapshot(o.xid, s.target), false)))

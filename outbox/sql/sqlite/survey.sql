-- Lock: none; one plain read. The highest id that the file has ever given is in sqlite_sequence: a cursor beyond it is of another,
-- younger file.
SELECT s.shard,
       CASE WHEN s.lease_until > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) THEN s.owner END,
       max(coalesce(s.lease_until, 0) - CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), 0),
       s.last_id,
       coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'leastlock_outbox'), 0)
FROM leastlock_outbox_shard AS s

-- The second step of a fold: rows that next_offset now stands for, the first so many of them.
-- Lock: the rows that go, and the guard row, which is held FOR SHARE since the statement before: while the epoch is this owner's, no
-- handler inserts below $4. READ COMMITTED.
DELETE FROM leastlock_partition_done
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer AND record_offset < $4::bigint
   AND record_offset <= coalesce((SELECT piece.record_offset
                                    FROM leastlock_partition_done AS piece
                                   WHERE piece.group_id = $1 AND piece.topic = $2 AND piece.partition = $3::integer
                                   ORDER BY piece.record_offset
                                   LIMIT 1 OFFSET $5::bigint - 1), $4::bigint)

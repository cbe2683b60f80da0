-- The second step of a fold: rows that next_offset now stands for, the first so many of them.
-- Lock: the file's write lock, taken by BEGIN IMMEDIATE. Isolation: serial.
DELETE FROM leastlock_partition_done
 WHERE group_id = ?1 AND topic = ?2 AND partition = ?3 AND record_offset < ?4
   AND record_offset <= coalesce((SELECT piece.record_offset
                                    FROM leastlock_partition_done AS piece
                                   WHERE piece.group_id = ?1 AND piece.topic = ?2 AND piece.partition = ?3
                                   ORDER BY piece.record_offset
                                   LIMIT 1 OFFSET ?5 - 1), ?4)

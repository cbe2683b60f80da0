-- Suspects are no matter any more: other records come next.
-- Lock: the rows that go. The tenure's row is gone (tenure_forget.sql), so no owner writes any meanwhile. READ COMMITTED.
DELETE FROM leastlock_partition_suspect
 WHERE group_id = $1 AND topic = $2 AND partition = $3::integer

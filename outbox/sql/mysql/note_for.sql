-- Lock: none. What note.sql works with: a message of several statements takes no parameters. A JSON array of
-- [shard, epoch, [id, …]], sorted by the shard.
SET @leastlock_noted = ?

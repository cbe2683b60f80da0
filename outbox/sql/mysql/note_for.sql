-- Lock: none. What note.sql works with: a message of several statements takes no parameters. A JSON array of
-- [shard, epoch, [id, …]], sorted by the shard; nothing where the session that read these events is not on this server: after a failover
-- their ids may be other events', under the same epoch.
SET @leastlock_noted = IF(IS_USED_LOCK(CONCAT('leastlock_outbox_', ?)) IS NULL, '[]', ?)

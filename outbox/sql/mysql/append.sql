-- Lock: none beyond the new row; the table's AUTO-INC lock is not held beyond the drawing of the id, since the number of rows is
-- known. Right at every isolation level. The id is drawn while the caller's transaction holds the key's lock, so ids of a key
-- follow that lock. For several events the last line is repeated; their ids follow the order of the lines.
INSERT INTO leastlock_outbox (shard, event_id, topic, `key`, value, headers, `partition`) VALUES
(?, ?, ?, ?, ?, ?, ?)

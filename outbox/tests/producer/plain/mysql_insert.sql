-- Counts the shards by itself: inside the INSERT that would lock their rows, which relays update.
SELECT COUNT(*) INTO @shards FROM leastlock_outbox_shard;
SET @event_id = UUID(), @topic = 'stock-moves', @key = '85123A';
INSERT INTO leastlock_outbox (shard, event_id, topic, `key`, value, headers)
VALUES (CONV(LEFT(SHA2(CONCAT(UNHEX(LPAD(HEX(LENGTH(@topic)), 16, '0')), @topic, COALESCE(@key, @event_id)), 256), 8), 16, 10)
            % @shards,
        @event_id, @topic, @key, '{"units": -3}', '[["source", "shop"]]');

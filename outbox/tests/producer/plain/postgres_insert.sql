-- Key and value are bytes, headers are a JSON list of [name, value].
INSERT INTO leastlock_outbox (shard, event_id, topic, key, value, headers)
SELECT leastlock_outbox_shard_of(topic, key, event_id), event_id, topic, key, value, '[["source", "shop"]]'
FROM (
    SELECT gen_random_uuid() AS event_id,
           'stock-moves' AS topic,
           convert_to('85123A', 'UTF8') AS key,
           convert_to('{"units": -3}', 'UTF8') AS value
) AS event;

-- Appends an event to the caller's transaction and answers its id: a new one of version 7 (RFC 9562), if none is given. Headers
-- are a list of [name, value]; a value is a string, {"hex": "…"} or null. In strict mode it waits for the key's lock first.
-- As in 0004, with the checks in a function of their own (0008).
CREATE OR REPLACE FUNCTION leastlock_outbox_append(
    topic           text,
    key             bytea,
    value           bytea,
    headers         jsonb   DEFAULT '[]',
    partition       integer DEFAULT NULL,
    event_id        uuid    DEFAULT NULL,
    strict_mode     boolean DEFAULT false,
    max_event_bytes integer DEFAULT 1000000
) RETURNS uuid
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    id     uuid  := event_id;
    stored jsonb := coalesce(headers, '[]');
BEGIN
    PERFORM leastlock_outbox_check(topic, key, value, stored, partition, max_event_bytes);
    IF id IS NULL THEN
        -- The milliseconds in front of a random UUID, and its version raised from 4 to 7.
        id := encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1),
            'hex')::uuid;
    END IF;
    IF strict_mode AND key IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(
            ('x' || encode(substring(leastlock_outbox_digest(topic, key) FROM 1 FOR 8), 'hex'))::bit(64)::bigint);
    END IF;
    INSERT INTO leastlock_outbox (shard, event_id, topic, key, value, headers, partition)
    VALUES (leastlock_outbox_shard_of(topic, key, id), id, topic, key, value, stored::text, partition);
    RETURN id;
END
$$;

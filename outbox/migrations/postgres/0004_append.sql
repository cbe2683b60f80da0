-- Appending from other languages. What decides the shard and the lock of a key: SHA-256 over the topic's length (eight bytes,
-- big-endian), the topic and the key. Stable for ever, and the same as in the crate.
CREATE FUNCTION leastlock_outbox_digest(topic text, key bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT sha256(int8send(octet_length(convert_to($1, 'UTF8'))) || convert_to($1, 'UTF8') || $2) $$;

-- The shard of an event; one without a key goes by its id. In plpgsql, which keeps the plan.
CREATE FUNCTION leastlock_outbox_shard_of(topic text, key bytea, event_id uuid) RETURNS smallint
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_variable
DECLARE
    digest bytea := leastlock_outbox_digest(topic, coalesce(key, convert_to(event_id::text, 'UTF8')));
    number bigint := ('x' || encode(substring(digest FROM 1 FOR 4), 'hex'))::bit(32)::bigint;
BEGIN
    RETURN (SELECT number % count(*) FROM leastlock_outbox_shard);
END
$$;

-- Appends an event to the caller's transaction and answers its id: a new one of version 7 (RFC 9562), if none is given. Headers
-- are a list of [name, value]; a value is a string, {"hex": "…"} or null. In strict mode it waits for the key's lock first.
-- What the crate refuses before any SQL is refused here too (22023): a row that cannot be read would stop the relay.
CREATE FUNCTION leastlock_outbox_append(
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
    id     uuid   := event_id;
    stored jsonb  := coalesce(headers, '[]');
    bytes  bigint := coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0);
    header jsonb;
    is_cloud_event boolean := false;
BEGIN
    IF topic IS NULL OR octet_length(topic) NOT BETWEEN 1 AND 249 OR topic ~ '[^A-Za-z0-9._-]' THEN
        RAISE EXCEPTION 'the topic must be 1 to 249 letters, digits, ''.'', ''_'' and ''-''' USING ERRCODE = '22023';
    END IF;
    IF partition < 0 THEN
        RAISE EXCEPTION 'partition % is below zero; leave it out to let the key decide', partition USING ERRCODE = '22023';
    END IF;
    IF jsonb_typeof(stored) <> 'array' THEN
        RAISE EXCEPTION 'headers must be a list of [name, value]' USING ERRCODE = '22023';
    END IF;
    FOR header IN SELECT element FROM jsonb_array_elements(stored) AS element LOOP
        IF jsonb_typeof(header) <> 'array' OR jsonb_array_length(header) <> 2 OR jsonb_typeof(header -> 0) <> 'string'
           OR NOT (jsonb_typeof(header -> 1) IN ('string', 'null')
                   OR coalesce(jsonb_typeof(header -> 1 -> 'hex') = 'string' AND header -> 1 ->> 'hex' ~ '^[0-9A-Fa-f]*$'
                               AND octet_length(header -> 1 ->> 'hex') % 2 = 0, false))
        THEN
            RAISE EXCEPTION 'a header must be [name, value] with a string, {"hex": "…"} or null as the value' USING ERRCODE = '22023';
        END IF;
        IF header ->> 0 = 'leastlock_event_id' THEN
            RAISE EXCEPTION 'the event''s id goes out as the header leastlock_event_id' USING ERRCODE = '22023';
        END IF;
        is_cloud_event := is_cloud_event OR header ->> 0 = 'ce_specversion';
        bytes := bytes + octet_length(header ->> 0)
               + coalesce(CASE jsonb_typeof(header -> 1)
                              WHEN 'object' THEN octet_length(header -> 1 ->> 'hex') / 2
                              ELSE octet_length(header ->> 1)
                          END, 0);
    END LOOP;
    IF is_cloud_event AND EXISTS (
        SELECT FROM jsonb_array_elements(stored) AS one (header)
        WHERE one.header ->> 0 ^@ 'ce_' OR one.header ->> 0 = 'content-type'
        GROUP BY one.header ->> 0
        HAVING count(*) > 1 OR one.header ->> 0 = 'ce_id'
    ) THEN
        RAISE EXCEPTION 'an attribute of a CloudEvent can be there once only, and ce_id is made from the event''s id'
            USING ERRCODE = '22023';
    END IF;
    IF bytes > max_event_bytes THEN
        RAISE EXCEPTION 'the event takes % bytes, the limit is %', bytes, max_event_bytes USING ERRCODE = '22023';
    END IF;
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

-- Which events a consumer has seen. Not partitioned by time: a unique index cannot span partitions, so an event that comes again
-- in the next one would be taken for a first.
CREATE TABLE leastlock_inbox (
    consumer text        NOT NULL,
    event_id uuid        NOT NULL,
    seen_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer, event_id)
);

CREATE INDEX leastlock_inbox_seen_at ON leastlock_inbox (seen_at);

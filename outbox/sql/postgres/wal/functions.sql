-- Lock: none. For services in other languages. What leastlock_wal_append writes is what WalOutbox::append writes; the
-- encoding is described at the head of src/wal/content.rs.
CREATE OR REPLACE FUNCTION leastlock_wal_field(field bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(int4send(octet_length(field)) || field, '\xffffffff'::bytea)
$$;

CREATE OR REPLACE FUNCTION leastlock_wal_content(
    event_id uuid, topic text, key bytea, value bytea, headers text, partition integer
) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT '\x01'::bytea || int4send(octet_length(body)) || substring(sha256(body) FROM 1 FOR 4) || body
    FROM (
        SELECT uuid_send(event_id) || int4send(coalesce(partition, -1))
            || leastlock_wal_field(convert_to(topic, 'UTF8')) || leastlock_wal_field(key) || leastlock_wal_field(value)
            || leastlock_wal_field(convert_to(headers, 'UTF8')) AS body
    ) AS event
$$;

-- Headers are a list of [name, value]; a value is a string, {"hex": "…"} or null. What WalOutbox::append refuses is refused here too: an
-- event that cannot be read stops the relay, and a NULL in place of the content would write nothing.
CREATE OR REPLACE FUNCTION leastlock_wal_append(
    outbox text, topic text, key bytea, value bytea, headers text DEFAULT '[]', partition integer DEFAULT NULL,
    event_id uuid DEFAULT NULL, max_event_bytes integer DEFAULT 1000000
) RETURNS uuid
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    -- Version 7 (RFC 9562): the milliseconds in front of a random UUID, and its version raised from 4.
    id      uuid   := coalesce(event_id, encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1),
        'hex')::uuid);
    stored  jsonb  := coalesce(headers, '[]')::jsonb;
    bytes   bigint := coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0);
    header  jsonb;
    content bytea;
    is_cloud_event boolean := false;
BEGIN
    IF topic IS NULL OR octet_length(topic) NOT BETWEEN 1 AND 249 OR topic ~ '[^A-Za-z0-9._-]' THEN
        RAISE EXCEPTION '% is not a topic name: 1 to 249 letters, digits, ".", "_" and "-"', quote_nullable(topic)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF partition < 0 THEN
        RAISE EXCEPTION 'partition % is below zero; leave it out to let the key decide', partition
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF jsonb_typeof(stored) <> 'array' THEN
        RAISE EXCEPTION 'headers are a JSON list of [name, value]' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR header IN SELECT element FROM jsonb_array_elements(stored) AS element LOOP
        IF jsonb_typeof(header) <> 'array' OR jsonb_array_length(header) <> 2 OR jsonb_typeof(header -> 0) <> 'string'
           OR NOT (jsonb_typeof(header -> 1) IN ('string', 'null')
                   OR coalesce(jsonb_typeof(header -> 1 -> 'hex') = 'string' AND header -> 1 ->> 'hex' ~ '^[0-9A-Fa-f]*$'
                               AND octet_length(header -> 1 ->> 'hex') % 2 = 0, false))
        THEN
            RAISE EXCEPTION 'a header must be [name, value] with a string, {"hex": "…"} or null as the value'
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        IF header ->> 0 = 'leastlock_event_id' THEN
            RAISE EXCEPTION 'the event''s id goes out as the header leastlock_event_id' USING ERRCODE = 'invalid_parameter_value';
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
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF bytes > max_event_bytes THEN
        RAISE EXCEPTION 'the event takes % bytes, the limit is %', bytes, max_event_bytes USING ERRCODE = 'invalid_parameter_value';
    END IF;
    content := leastlock_wal_content(id, topic, key, value, stored::text, partition);
    IF content IS NULL THEN
        RAISE EXCEPTION 'the event has no content' USING ERRCODE = 'internal_error';
    END IF;
    PERFORM pg_logical_emit_message(true, outbox, content)
    FROM pg_replication_slots
    WHERE slot_name = outbox AND database = current_database() AND wal_status <> 'lost';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this database has no replication slot % that can be read; the event would be lost', quote_nullable(outbox)
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN id;
END
$$;

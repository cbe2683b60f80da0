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

CREATE OR REPLACE FUNCTION leastlock_wal_append(
    outbox text, topic text, key bytea, value bytea, headers text DEFAULT '[]', partition integer DEFAULT NULL,
    event_id uuid DEFAULT gen_random_uuid()
) RETURNS uuid
LANGUAGE plpgsql AS $$
BEGIN
    IF topic IS NULL OR topic !~ '^[A-Za-z0-9._-]{1,249}$' THEN
        RAISE EXCEPTION '% is not a topic name: 1 to 249 letters, digits, ".", "_" and "-"', quote_nullable(topic)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF partition < 0 THEN
        RAISE EXCEPTION 'partition % is below zero; leave it out to let the key decide', partition
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF json_typeof(headers::json) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'headers are a JSON list of [name, value]' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_logical_emit_message(true, outbox, leastlock_wal_content(event_id, topic, key, value, headers, partition))
    FROM pg_replication_slots
    WHERE slot_name = outbox AND database = current_database() AND wal_status <> 'lost';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this database has no replication slot % that can be read; the event would be lost', quote_nullable(outbox)
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN event_id;
END
$$;

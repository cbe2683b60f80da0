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

-- Headers are a list of [name, value]; a value is a string, {"hex": "…"} or null. What WalOutbox::append refuses
-- leastlock_outbox_check refuses here; a NULL in place of the content would write nothing.
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
    content bytea;
BEGIN
    PERFORM leastlock_outbox_check(topic, key, value, stored, partition, max_event_bytes);
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

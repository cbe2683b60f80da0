-- What the crate refuses before any SQL is refused here too (22023), whichever way the event goes: leastlock_outbox_append calls it, and
-- leastlock_wal_append, whose setup makes the function where no table is. A row or a message that cannot be read would stop the relay.
CREATE OR REPLACE FUNCTION leastlock_outbox_check(
    topic text, key bytea, value bytea, stored jsonb, partition integer, max_event_bytes integer
) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
#variable_conflict use_variable
DECLARE
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
END
$$;

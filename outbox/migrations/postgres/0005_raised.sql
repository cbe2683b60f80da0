-- As in 0004, among the shards that take events: those whose place others have taken take no more. One without a key goes by its id.
CREATE OR REPLACE FUNCTION leastlock_outbox_shard_of(topic text, key bytea, event_id uuid) RETURNS smallint
LANGUAGE sql STABLE
AS $$
    SELECT (min(shard)
            + ('x' || encode(substring(leastlock_outbox_digest($1, coalesce($2, convert_to($3::text, 'UTF8')))
                                       FROM 1 FOR 4), 'hex'))::bit(32)::bigint % count(*))::smallint
    FROM leastlock_outbox_shard
    WHERE NOT retired
$$;

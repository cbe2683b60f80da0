-- As in 0004, among the shards that take events: those whose place others have taken take no more. One without a key goes by its id.
CREATE OR REPLACE FUNCTION leastlock_outbox_shard_of(topic text, key bytea, event_id uuid) RETURNS smallint
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_variable
DECLARE
    digest bytea  := leastlock_outbox_digest(topic, coalesce(key, convert_to(event_id::text, 'UTF8')));
    number bigint := ('x' || encode(substring(digest FROM 1 FOR 4), 'hex'))::bit(32)::bigint;
BEGIN
    RETURN (SELECT min(s.shard) + number % count(*) FROM leastlock_outbox_shard AS s WHERE NOT s.retired);
END
$$;

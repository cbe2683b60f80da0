-- Several relays share the shards fairly: who is there. A row is a relay that was heard of lately.
CREATE TABLE leastlock_outbox_relay (
    owner      text        NOT NULL PRIMARY KEY,
    seen_until timestamptz NOT NULL
) WITH (fillfactor = 20);

-- What had been published at a moment: when that is long enough ago, the events behind it may be deleted.
CREATE TABLE leastlock_outbox_mark (
    shard    smallint    NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    done     pg_snapshot NOT NULL,
    PRIMARY KEY (shard, noted_at)
);

-- seen_id: an id that had been drawn when it was written. Whatever is appended after a restore has a higher one.
-- retired: no event is appended to it any more. waits: nobody may hold it until every retired shard has been published.
ALTER TABLE leastlock_outbox_shard
    ADD COLUMN seen_id bigint NOT NULL DEFAULT 0,
    ADD COLUMN retired boolean NOT NULL DEFAULT false,
    ADD COLUMN waits boolean NOT NULL DEFAULT false;

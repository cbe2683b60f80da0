-- Which topic of that name it is. NULL: the cluster does not say, or has not been asked yet.
ALTER TABLE leastlock_partition ADD COLUMN topic_id text;

-- What operators did to partitions. from_offset and topic_id are what stood there before.
CREATE TABLE leastlock_partition_audit (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor       text        NOT NULL,
    action      text        NOT NULL,
    reason      text        NOT NULL,
    group_id    text        NOT NULL,
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    from_offset bigint,
    to_offset   bigint,
    topic_id    text
);

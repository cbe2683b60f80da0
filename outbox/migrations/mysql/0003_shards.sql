-- Several relays share the shards fairly: who is there. A row is a relay that was heard of lately. Times are UTC.
CREATE TABLE leastlock_outbox_relay (
    owner      VARBINARY(64) NOT NULL PRIMARY KEY,
    seen_until DATETIME(6)   NOT NULL
) ENGINE = InnoDB

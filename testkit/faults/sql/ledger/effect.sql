-- Unique in nothing: a second effect of a record is to be found, not refused.
CREATE TABLE ledger_effect (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, partition bigint NOT NULL, account text NOT NULL, record_offset bigint NOT NULL,
epoch bigint NOT NULL, writer text NOT NULL)

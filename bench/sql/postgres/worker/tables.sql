CREATE TABLE bench_row (row_key text PRIMARY KEY, moves bigint NOT NULL);
CREATE TABLE soak_account (account text PRIMARY KEY, last bigint NOT NULL);
CREATE TABLE soak_effect (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account text NOT NULL,
    sequence bigint NOT NULL,
    previous bigint NOT NULL,
    process bigint NOT NULL,
    partition integer NOT NULL,
    record_offset bigint NOT NULL,
    epoch bigint NOT NULL,
    owner text NOT NULL
)

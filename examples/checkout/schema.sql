-- One row: the run that this database belongs to.
CREATE TABLE shop_run (
    only_one      BIGINT NOT NULL PRIMARY KEY CHECK (only_one = 1),
    run_id        TEXT   NOT NULL,
    orders_sha256 TEXT   NOT NULL,
    opening_stock BIGINT NOT NULL,
    brokers       TEXT   NOT NULL
);

-- moves counts the committed changes of a row, taken under its lock: the sequence that its events carry.
CREATE TABLE shop_stock (
    stock_code TEXT   NOT NULL PRIMARY KEY,
    opening    BIGINT NOT NULL,
    remaining  BIGINT NOT NULL CHECK (remaining >= 0),
    units_out  BIGINT NOT NULL DEFAULT 0,
    units_back BIGINT NOT NULL DEFAULT 0,
    moves      BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE shop_order (
    invoice    TEXT   NOT NULL PRIMARY KEY,
    units_out  BIGINT NOT NULL,
    units_back BIGINT NOT NULL
);

-- Written by the worker only.
CREATE TABLE ledger (
    stock_code    TEXT   NOT NULL PRIMARY KEY,
    units_out     BIGINT NOT NULL DEFAULT 0,
    units_back    BIGINT NOT NULL DEFAULT 0,
    last_sequence BIGINT NOT NULL DEFAULT 0
);

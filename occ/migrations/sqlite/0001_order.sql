-- One row an order id whose operation a StockCounter has answered, refusals included, written in the transaction of that
-- answer. operation_digest tells a repeat from another operation under the same id. created_at is milliseconds since 1970.
-- Not WITHOUT ROWID: rowids rise with time, so that the old rows are found at the beginning.
CREATE TABLE leastlock_occ_order (
    order_id         TEXT    NOT NULL PRIMARY KEY CHECK (length(order_id) BETWEEN 1 AND 255),
    operation_digest INTEGER NOT NULL,
    answer           TEXT    NOT NULL,
    created_at       INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
);

-- The units of a StockCounter that was not given a table of the application's own.
CREATE TABLE leastlock_occ_stock (
    stock_key TEXT    NOT NULL PRIMARY KEY CHECK (length(stock_key) BETWEEN 1 AND 255),
    units     INTEGER NOT NULL
) WITHOUT ROWID;

-- One row an order id whose operation a StockCounter has answered, refusals included, written in the transaction of that
-- answer. operation_digest tells a repeat from another operation under the same id. created_at is UTC.
CREATE TABLE leastlock_occ_order (
    order_id         VARBINARY(255)  NOT NULL PRIMARY KEY CHECK (length(order_id) >= 1),
    operation_digest BIGINT          NOT NULL,
    answer           VARBINARY(1024) NOT NULL,
    created_at       DATETIME(6)     NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    KEY leastlock_occ_order_created (created_at)
) ENGINE = InnoDB;

-- The units of a StockCounter that was not given a table of the application's own.
CREATE TABLE leastlock_occ_stock (
    stock_key VARBINARY(255) NOT NULL PRIMARY KEY CHECK (length(stock_key) >= 1),
    units     BIGINT         NOT NULL
) ENGINE = InnoDB;

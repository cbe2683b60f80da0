-- One row an order id whose operation a StockCounter has answered, refusals included, written in the transaction of that
-- answer. operation_digest tells a repeat from another operation under the same id.
CREATE TABLE leastlock_occ_order (
    order_id         text COLLATE "C" PRIMARY KEY CHECK (octet_length(order_id) BETWEEN 1 AND 255),
    operation_digest bigint      NOT NULL,
    answer           text        NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now()
);

-- Rows come in the order of their time, so a page's range is enough to find the old ones, and costs an insert next to nothing.
CREATE INDEX leastlock_occ_order_created ON leastlock_occ_order USING brin (created_at);

-- The units of a StockCounter that was not given a table of the application's own.
CREATE TABLE leastlock_occ_stock (
    stock_key text COLLATE "C" PRIMARY KEY CHECK (octet_length(stock_key) BETWEEN 1 AND 255),
    units     bigint NOT NULL
) WITH (fillfactor = 50);

-- What is for sale. given_back counts the units that cancelled orders have returned.
CREATE TABLE payment_stock (
    item        TEXT   NOT NULL PRIMARY KEY,
    price_cents BIGINT NOT NULL,
    opening     BIGINT NOT NULL,
    units       BIGINT NOT NULL CHECK (units >= 0),
    given_back  BIGINT NOT NULL DEFAULT 0
);

-- customer and idempotency_key are those of the request that made the order: from them follows the key under which the
-- provider knows its charge.
CREATE TABLE payment_order (
    order_id        TEXT   NOT NULL PRIMARY KEY,
    customer        TEXT   NOT NULL,
    idempotency_key TEXT   NOT NULL,
    item            TEXT   NOT NULL,
    units           BIGINT NOT NULL,
    amount_cents    BIGINT NOT NULL,
    state           TEXT   NOT NULL,
    charge_id       TEXT,
    declined        TEXT
);

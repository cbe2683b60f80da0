-- Lock: none that anybody waits for; run before the clients. The outbox of a service that has none of the library's: rows are
-- inserted by the business transaction and deleted once they are published.
CREATE TABLE plain_outbox (
    id           bigint       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    event_id     char(36)     NOT NULL,
    topic        varchar(249) NOT NULL,
    record_key   varbinary(255) NOT NULL,
    record_value longblob     NOT NULL
)

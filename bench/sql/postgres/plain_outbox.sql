-- Lock: none that anybody waits for; run before the clients. The outbox of a service that has none of the library's: rows are
-- inserted by the business transaction and deleted once they are published.
CREATE TABLE plain_outbox (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id     uuid   NOT NULL,
    topic        text   NOT NULL,
    record_key   bytea  NOT NULL,
    record_value bytea  NOT NULL
)

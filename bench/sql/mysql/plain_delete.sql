-- Lock: the rows deleted, found by the primary key. READ COMMITTED. Exactly those that were published (a JSON list of ids): a row
-- with a lower id may have been committed meanwhile.
DELETE plain_outbox
FROM plain_outbox
JOIN JSON_TABLE(?, '$[*]' COLUMNS (id bigint PATH '$')) AS published ON plain_outbox.id = published.id

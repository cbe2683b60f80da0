-- Lock: the rows deleted. READ COMMITTED. Exactly those that were published: a row with a lower id may have been committed
-- meanwhile.
DELETE FROM plain_outbox WHERE id = ANY ($1)

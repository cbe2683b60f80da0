-- Lock: none that anybody waits for; nobody else is there while a contest is prepared.
CREATE TABLE kept_answer AS SELECT * FROM leastlock_idempotency

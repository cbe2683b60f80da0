-- Lock: none that anybody waits for; nobody else writes while a round is prepared.
INSERT INTO leastlock_idempotency SELECT * FROM kept_answer

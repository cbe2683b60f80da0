-- Lock: the record's row, for this one statement. Right at every isolation level: the generation is the fence. Since a new
-- record of the key begins at generation 1 again, the owner is in every condition as well.
DELETE FROM leastlock_idempotency
WHERE scope = ? AND idempotency_key = ? AND generation = ? AND owner_token = ? AND state = 'running'

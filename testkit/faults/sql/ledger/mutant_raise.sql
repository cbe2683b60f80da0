-- The second step of a seal: waits for handlers that are open.
UPDATE ledger_turn SET epoch = $2 WHERE partition = $1 AND epoch < $2 RETURNING next_offset

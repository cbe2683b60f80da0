UPDATE ledger_turn SET next_offset = $3 WHERE partition = $1 AND epoch = $2

-- The mutant: also for a partition that has gone to somebody else.
UPDATE ledger_turn SET next_offset = $2 WHERE partition = $1

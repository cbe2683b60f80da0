SELECT next_offset FROM ledger_turn WHERE partition = $1

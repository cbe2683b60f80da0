SELECT record_offset FROM ledger_done WHERE partition = $1

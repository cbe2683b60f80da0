DELETE FROM ledger_done WHERE partition = $1 AND record_offset < $2

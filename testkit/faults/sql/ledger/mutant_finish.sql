INSERT INTO ledger_done VALUES ($1, $2)

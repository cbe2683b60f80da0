SELECT count(*) FROM ledger_effect

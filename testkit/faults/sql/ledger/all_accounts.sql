SELECT account, balance FROM ledger_account

INSERT INTO ledger_account SELECT 'account-' || number, 0 FROM generate_series(0, $1 - 1) AS number

CREATE TABLE ledger_account (account text PRIMARY KEY, balance bigint NOT NULL)

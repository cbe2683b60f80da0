-- In the transaction of the transfer, so that it is there if and only if the transfer is; any isolation level is right.
INSERT INTO moved (id, debtor, creditor, units, debtor_version, creditor_version) VALUES (?, ?, ?, ?, ?, ?)

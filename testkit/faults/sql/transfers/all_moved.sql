-- A plain read: what has committed by now. It takes no lock.
SELECT id, debtor, creditor, units, debtor_version, creditor_version FROM moved ORDER BY id

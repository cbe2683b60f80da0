-- A plain read once nobody writes, or of one moment: it takes no lock.
SELECT id, balance, version FROM account ORDER BY id

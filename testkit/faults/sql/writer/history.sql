-- A plain read: what has committed by now. It takes no lock.
SELECT token, owner, write_id FROM batch ORDER BY place

-- Takes no lock. The session that has the user lock; NULL if it is free. Whose it is the server does not tell.
SELECT CAST(IS_USED_LOCK(?) AS SIGNED)

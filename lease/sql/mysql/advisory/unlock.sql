-- Gives the user lock of the session up; answers 1 if it was there, and otherwise 0 or NULL.
SELECT CAST(RELEASE_LOCK(?) AS SIGNED)

-- Takes the user lock of the session, waiting for so many seconds. User locks are the server's, not the database's.
SELECT CAST(GET_LOCK(?, ?) AS SIGNED)

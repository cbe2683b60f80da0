-- Takes no lock. A session that sends nothing for a TTL (whole seconds) is ended by the server, and its lock with it.
SET SESSION wait_timeout = ?

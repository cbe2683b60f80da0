-- Lock: none. For the whole session that reads: each read has to have a snapshot of its own, whatever the server's default is.
SET autocommit = 1

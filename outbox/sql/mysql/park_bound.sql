-- Lock: none. For a connection that is about to hold locks over several messages and is closed after that: the server ends it, and
-- its transaction, once it has been idle for 10 s.
SET SESSION wait_timeout = 10

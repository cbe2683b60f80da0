-- Lock: none. For a connection that is about to hold locks over several messages and is closed after that: the server ends it, and
-- its transaction, once nothing was heard of it for so many ms; in whole seconds, of which one is the least.
SET SESSION wait_timeout = GREATEST(1, ? DIV 1000)

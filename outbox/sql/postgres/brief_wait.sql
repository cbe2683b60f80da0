-- Lock: none. For this transaction: how long it waits for whoever is at work before it gives up, and after how long in which nothing is
-- heard of it the server ends it: it locks the shards' rows and goes on in another message, so a relay that stops in between would keep
-- them beyond its lease. 500 ms is the shortest lease that there is.
SELECT set_config('lock_timeout', '200ms', true), set_config('idle_in_transaction_session_timeout', '500ms', true)

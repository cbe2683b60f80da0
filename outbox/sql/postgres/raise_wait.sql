-- Lock: none. For this transaction: how long it stands in the queue for the log. Appends and reads stand behind it meanwhile, so it
-- goes away soon and comes back; shorter than deadlock_timeout, so that it is never the reason why another transaction is ended.
SELECT set_config('lock_timeout', '500ms', true)

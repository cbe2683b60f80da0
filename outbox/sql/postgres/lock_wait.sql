-- Lock: none. For this transaction: how long it waits for whoever is at work.
SELECT set_config('lock_timeout', '30s', true)

-- Lock: none. For this transaction: how long it waits for whoever is at work before it gives up.
SELECT set_config('lock_timeout', '200ms', true)

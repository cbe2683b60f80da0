-- Takes no lock. Gives the connection back the bound that it had before bound_connection.sql.
SELECT set_config('lock_timeout', current_setting('leastlock.lock_timeout'), false)

-- Lock: none. For this transaction, which locks a shard's row and goes on in another message: after how many ms in which nothing is heard
-- of it the server ends it, if that is less than what begin_write.sql says. A relay that stops in it must not keep the shard beyond its
-- lease.
SELECT set_config(
    'idle_in_transaction_session_timeout',
    least(extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000, $1)::bigint::text,
    true)

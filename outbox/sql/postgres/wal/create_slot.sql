-- Lock: waits until every transaction that was writing anywhere in the cluster has ended, for decoding begins at a
-- point at which it knows all that are open. It must not run in a transaction that has written. Two-phase decoding
-- stays off: a prepared transaction is answered when it is committed.
SELECT pg_create_logical_replication_slot($1, 'pgoutput')::text

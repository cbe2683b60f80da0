-- Lock: the new row; whoever marks the same event waits for this transaction to end, as lock_timeout allows. No row was inserted:
-- one is there, committed, so it is a repeat. Under READ COMMITTED a wait for a transaction that rolled back ends with this row
-- inserted. Under REPEATABLE READ a row that this snapshot does not see is a serialization failure (40001), never a first.
INSERT INTO leastlock_inbox (consumer, event_id)
VALUES ($1, $2::text::uuid)
ON CONFLICT DO NOTHING

-- The effects, those of an account in the order in which they took its row's lock.
-- Lock: none.
SELECT account, sequence, previous, process, partition::bigint, epoch, owner FROM soak_effect ORDER BY id

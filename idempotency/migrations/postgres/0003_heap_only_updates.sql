-- A completion of the transactional mode updates no column that an index names, predicates included, so that it is a heap-only
-- update (HOT): no index is written a second time. `state` must therefore be in none. A running record has a lease, a held one is
-- unknown since some time, and what the transactional mode writes has neither.
DROP INDEX leastlock_idempotency_unfinished;

CREATE INDEX leastlock_idempotency_running ON leastlock_idempotency (lease_until) WHERE lease_until IS NOT NULL;

CREATE INDEX leastlock_idempotency_held ON leastlock_idempotency (unknown_since) WHERE unknown_since IS NOT NULL;

-- The update needs room on the page of its row: each row is written twice.
ALTER TABLE leastlock_idempotency SET (fillfactor = 75);

-- Takes no lock; right at every isolation level. It only has to fail: PostgreSQL then refuses every further statement of
-- the transaction (25P02) and turns its COMMIT into a ROLLBACK.
DO $$ BEGIN RAISE EXCEPTION 'leastlock: a guarded statement broke its bound, so this transaction must not commit' USING ERRCODE = 'LL001'; END $$

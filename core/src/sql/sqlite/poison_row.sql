-- A deferred foreign key that points nowhere: COMMIT fails with SQLITE_CONSTRAINT_FOREIGNKEY and leaves the transaction
-- open, so that it can be rolled back in the ordinary way ("Foreign Key Support", section 4.2). Takes no lock, as above.
INSERT OR IGNORE INTO temp.leastlock_poison (id, nowhere) VALUES (1, 2)

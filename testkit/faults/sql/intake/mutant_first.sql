-- The mutant: after the effect.
INSERT INTO intake_claim VALUES ($1, 0, $2) ON CONFLICT DO NOTHING

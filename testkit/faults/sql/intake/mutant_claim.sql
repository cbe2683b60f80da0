-- The mutant: who is old may be taken over, and nothing tells the two owners apart.
INSERT INTO intake_claim VALUES ($1, $2, NULL) ON CONFLICT (order_key) DO UPDATE SET since_ms = excluded.since_ms
WHERE intake_claim.receipt IS NULL AND intake_claim.since_ms < excluded.since_ms - $3

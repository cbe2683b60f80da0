-- Step one of a seal, committed alone. Takes the gate row's exclusive lock; nobody share-locks it, so it waits for other
-- seals only. Right at READ COMMITTED: a higher generation that came first is seen after the wait, and refuses this one.
-- The same generation and owner again is a seal that goes on after a lost reply.
INSERT INTO leastlock_fence_gate AS gate (resource, generation, owner_token, raised_at)
VALUES ($1::text, $2::bigint, $3::bytea, clock_timestamp())
ON CONFLICT (resource) DO UPDATE SET
    generation = excluded.generation,
    owner_token = excluded.owner_token,
    raised_at = clock_timestamp()
WHERE gate.generation < excluded.generation
   OR (gate.generation = excluded.generation AND gate.owner_token = excluded.owner_token)
RETURNING generation::bigint

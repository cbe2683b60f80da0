-- Step one of a seal, under the file's one write lock (BEGIN IMMEDIATE). A higher generation refuses this one; the same
-- generation and owner again is a seal that goes on after a lost reply.
INSERT INTO leastlock_fence_gate AS gate (resource, generation, owner_token, raised_at)
VALUES (?1, ?2, ?3, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
ON CONFLICT (resource) DO UPDATE SET
    generation = excluded.generation,
    owner_token = excluded.owner_token,
    raised_at = excluded.raised_at
WHERE gate.generation < excluded.generation
   OR (gate.generation = excluded.generation AND gate.owner_token = excluded.owner_token)
RETURNING generation

-- Step two of a seal, under the file's one write lock (BEGIN IMMEDIATE): a transaction whose check took that lock has
-- ended by now.
INSERT INTO leastlock_fence AS fence (resource, generation, owner_token, sealed_at)
VALUES (?1, ?2, ?3, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
ON CONFLICT (resource) DO UPDATE SET
    generation = excluded.generation,
    owner_token = excluded.owner_token,
    sealed_at = excluded.sealed_at
WHERE fence.generation < excluded.generation
   OR (fence.generation = excluded.generation AND fence.owner_token = excluded.owner_token)
RETURNING generation

-- Step two of a seal. Takes the guard row's exclusive lock, and so waits until every transaction that has share-locked it
-- by a check has ended. Right at READ COMMITTED, as in step one.
INSERT INTO leastlock_fence AS fence (resource, generation, owner_token, sealed_at)
VALUES ($1::text, $2::bigint, $3::bytea, clock_timestamp())
ON CONFLICT (resource) DO UPDATE SET
    generation = excluded.generation,
    owner_token = excluded.owner_token,
    sealed_at = clock_timestamp()
WHERE fence.generation < excluded.generation
   OR (fence.generation = excluded.generation AND fence.owner_token = excluded.owner_token)
RETURNING generation::bigint

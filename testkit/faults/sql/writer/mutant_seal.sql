-- The mutant: one step. Takes the guard row's exclusive lock, for which it waits as long as anybody share-locks it.
INSERT INTO leastlock_fence AS fence (resource, generation, owner_token, sealed_at)
VALUES ($1::text, $2::bigint, $3::bytea, clock_timestamp())
ON CONFLICT (resource) DO UPDATE SET
    generation = excluded.generation,
    owner_token = excluded.owner_token,
    sealed_at = clock_timestamp()
WHERE fence.generation < excluded.generation
   OR (fence.generation = excluded.generation AND fence.owner_token = excluded.owner_token)

-- The mutant: share-locks the guard row, and asks no gate, so that newcomers of the old generation keep coming. Right at READ COMMITTED
-- as far as it goes.
SELECT generation FROM leastlock_fence
WHERE resource = $1::text AND generation = $2::bigint AND owner_token = $3::bytea
FOR SHARE

-- The mutant: compares, and takes no lock, so that a seal does not wait for this transaction.
SELECT generation FROM leastlock_fence WHERE resource = $1::text AND generation = $2::bigint AND owner_token = $3::bytea

-- Takes no lock, and is its own transaction: it sees what is committed.
SELECT owner_token,
       GREATEST(0, extract(epoch FROM completed_at - began_at) * 1000)::bigint,
       GREATEST(0, extract(epoch FROM clock_timestamp() - completed_at) * 1000)::bigint
FROM leastlock_once
WHERE job = $1::text AND period = $2::text

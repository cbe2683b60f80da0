SELECT coalesce(charge, 0) FROM provider_seen WHERE provider_key = $1

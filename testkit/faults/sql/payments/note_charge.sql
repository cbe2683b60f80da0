UPDATE provider_seen SET charge = $2 WHERE provider_key = $1

INSERT INTO provider_charge (provider_key, reference, cents) VALUES ($1, $2, $3) RETURNING charge

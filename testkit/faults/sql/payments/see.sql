-- A second call with the key waits for the first.
INSERT INTO provider_seen VALUES ($1, NULL) ON CONFLICT DO NOTHING

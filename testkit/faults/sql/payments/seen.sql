-- The provider's: which keys it has seen, and what came of each.
CREATE TABLE provider_seen (provider_key text PRIMARY KEY, charge bigint)

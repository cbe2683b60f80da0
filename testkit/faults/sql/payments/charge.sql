-- The provider's: what was charged.
CREATE TABLE provider_charge (charge bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, provider_key text NOT NULL, reference text NOT NULL, cents bigint NOT NULL)

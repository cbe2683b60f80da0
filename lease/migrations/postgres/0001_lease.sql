-- One row a lock name. It stays after a release, so that the sequence of tokens survives: a change of owner always
-- raises fencing_seq. lease_until is NULL once the owner has released, and in the past once the lease has expired.
CREATE TABLE leastlock_lease (
    lock_name   text COLLATE "C" PRIMARY KEY CHECK (octet_length(lock_name) BETWEEN 3 AND 200),
    owner_token bytea       NOT NULL CHECK (octet_length(owner_token) = 16),
    fencing_seq bigint      NOT NULL CHECK (fencing_seq > 0),
    lease_until timestamptz,
    updated_at  timestamptz NOT NULL,
    acquired_at timestamptz NOT NULL,
    job_id      text
) WITH (fillfactor = 50);

-- The generation that stands sealed at each resource. Checks share-lock this row, seals wait for them.
CREATE TABLE leastlock_fence (
    resource    text COLLATE "C" PRIMARY KEY,
    generation  bigint      NOT NULL CHECK (generation > 0),
    owner_token bytea       NOT NULL CHECK (octet_length(owner_token) = 16),
    sealed_at   timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The generation that wants to be sealed. Nobody ever share-locks this row, so a new generation stops newcomers of the
-- old one at once, however many of them hold the row above.
CREATE TABLE leastlock_fence_gate (
    resource    text COLLATE "C" PRIMARY KEY,
    generation  bigint      NOT NULL CHECK (generation > 0),
    owner_token bytea       NOT NULL CHECK (octet_length(owner_token) = 16),
    raised_at   timestamptz NOT NULL
) WITH (fillfactor = 50);

-- One row a lock name. It stays after a release, so that the sequence of tokens survives: a change of owner always
-- raises fencing_seq. lease_until is NULL once the owner has released, and in the past once the lease has expired.
-- Times are milliseconds since 1970.
CREATE TABLE leastlock_lease (
    lock_name   TEXT PRIMARY KEY CHECK (length(lock_name) BETWEEN 3 AND 200),
    owner_token BLOB    NOT NULL CHECK (length(owner_token) = 16),
    fencing_seq INTEGER NOT NULL CHECK (fencing_seq > 0),
    lease_until INTEGER,
    updated_at  INTEGER NOT NULL,
    acquired_at INTEGER NOT NULL,
    job_id      TEXT
) WITHOUT ROWID;

-- The generation that stands sealed at each resource.
CREATE TABLE leastlock_fence (
    resource    TEXT PRIMARY KEY,
    generation  INTEGER NOT NULL CHECK (generation > 0),
    owner_token BLOB    NOT NULL CHECK (length(owner_token) = 16),
    sealed_at   INTEGER NOT NULL
) WITHOUT ROWID;

-- The generation that wants to be sealed.
CREATE TABLE leastlock_fence_gate (
    resource    TEXT PRIMARY KEY,
    generation  INTEGER NOT NULL CHECK (generation > 0),
    owner_token BLOB    NOT NULL CHECK (length(owner_token) = 16),
    raised_at   INTEGER NOT NULL
) WITHOUT ROWID;

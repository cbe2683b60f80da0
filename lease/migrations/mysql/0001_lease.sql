-- One row a lock name. It stays after a release, so that the sequence of tokens survives: a change of owner always
-- raises fencing_seq. lease_until is NULL once the owner has released, and in the past once the lease has expired.
-- Keys are bytes: no collation may take two of them for one. Times are UTC.
CREATE TABLE leastlock_lease (
    lock_name   VARBINARY(200) NOT NULL PRIMARY KEY CHECK (LENGTH(lock_name) >= 3),
    owner_token VARBINARY(16)  NOT NULL CHECK (LENGTH(owner_token) = 16),
    fencing_seq BIGINT         NOT NULL CHECK (fencing_seq > 0),
    lease_until DATETIME(6),
    updated_at  DATETIME(6)    NOT NULL,
    acquired_at DATETIME(6)    NOT NULL,
    job_id      VARBINARY(200)
) ENGINE = InnoDB;

-- The generation that stands sealed at each resource. Checks share-lock this row, seals wait for them.
CREATE TABLE leastlock_fence (
    resource    VARBINARY(200) NOT NULL PRIMARY KEY,
    generation  BIGINT         NOT NULL CHECK (generation > 0),
    owner_token VARBINARY(16)  NOT NULL CHECK (LENGTH(owner_token) = 16),
    sealed_at   DATETIME(6)    NOT NULL
) ENGINE = InnoDB;

-- The generation that wants to be sealed. Nobody ever share-locks this row, so a new generation stops newcomers of the
-- old one at once, however many of them hold the row above.
CREATE TABLE leastlock_fence_gate (
    resource    VARBINARY(200) NOT NULL PRIMARY KEY,
    generation  BIGINT         NOT NULL CHECK (generation > 0),
    owner_token VARBINARY(16)  NOT NULL CHECK (LENGTH(owner_token) = 16),
    raised_at   DATETIME(6)    NOT NULL
) ENGINE = InnoDB

-- One row a period of a job that is done, written in the transaction of its work: the unique key lets one of two runs commit.
CREATE TABLE leastlock_once (
    job          text COLLATE "C" NOT NULL CHECK (octet_length(job) BETWEEN 1 AND 200),
    period       text COLLATE "C" NOT NULL CHECK (octet_length(period) BETWEEN 1 AND 200),
    owner_token  bytea            NOT NULL CHECK (octet_length(owner_token) = 16),
    began_at     timestamptz      NOT NULL,
    completed_at timestamptz      NOT NULL,
    PRIMARY KEY (job, period)
);

-- A sweep finds the oldest here, however many there are to stay.
CREATE INDEX leastlock_once_completed_at ON leastlock_once (completed_at)

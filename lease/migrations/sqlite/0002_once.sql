-- One row a period of a job that is done, written in the transaction of its work: the unique key lets one of two runs commit.
CREATE TABLE leastlock_once (
    job          TEXT    NOT NULL CHECK (length(job) BETWEEN 1 AND 200),
    period       TEXT    NOT NULL CHECK (length(period) BETWEEN 1 AND 200),
    owner_token  BLOB    NOT NULL CHECK (length(owner_token) = 16),
    began_at     INTEGER NOT NULL,
    completed_at INTEGER NOT NULL,
    PRIMARY KEY (job, period)
) WITHOUT ROWID;

-- A sweep finds the oldest here, however many there are to stay.
CREATE INDEX leastlock_once_completed_at ON leastlock_once (completed_at)

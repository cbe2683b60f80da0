-- One row a period of a job that is done, written in the transaction of its work: the unique key lets one of two runs commit.
-- Keys are bytes: no collation may take two of them for one. A sweep finds the oldest by the second key.
CREATE TABLE leastlock_once (
    job          VARBINARY(200) NOT NULL CHECK (LENGTH(job) >= 1),
    period       VARBINARY(200) NOT NULL CHECK (LENGTH(period) >= 1),
    owner_token  VARBINARY(16)  NOT NULL CHECK (LENGTH(owner_token) = 16),
    began_at     DATETIME(6)    NOT NULL,
    completed_at DATETIME(6)    NOT NULL,
    PRIMARY KEY (job, period),
    KEY leastlock_once_completed_at (completed_at)
) ENGINE = InnoDB

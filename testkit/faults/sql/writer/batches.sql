-- Each batch that was applied: its place in the order of commits, and whose it was.
CREATE TABLE batch (
    place BIGINT NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL,
    owner VARCHAR(100) NOT NULL,
    write_id VARCHAR(100) NOT NULL
)

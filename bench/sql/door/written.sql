-- Each write that was applied: its place at the door, and whose it was.
CREATE TABLE fault_write (
    door BIGINT NOT NULL,
    place BIGINT NOT NULL,
    token BIGINT NOT NULL,
    holder BIGINT NOT NULL,
    PRIMARY KEY (door, place)
)

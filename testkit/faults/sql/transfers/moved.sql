-- What each committed transfer did, in its own transaction: the versions that it gave both accounts.
CREATE TABLE moved (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    debtor BIGINT NOT NULL,
    creditor BIGINT NOT NULL,
    units BIGINT NOT NULL,
    debtor_version BIGINT NOT NULL,
    creditor_version BIGINT NOT NULL
)

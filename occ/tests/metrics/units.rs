//! A row, the error of a unit of work on it, and the states of another row.

use leastlock_core::{Backoff, Dialect};
use leastlock_occ::{Conflict, ConflictClass, Error, MayConflict, StateConflict, Transition, Version, Versioned};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};

pub(crate) const QUICK: Backoff =
    Backoff::new(std::time::Duration::from_millis(1), std::time::Duration::from_millis(4));
pub(crate) const RIVAL: &str = "UPDATE account SET balance = balance + 5, version = version + 1 WHERE id = 'a'";

#[derive(Debug, Clone, Versioned)]
#[versioned(table = "account", key = "id", version = "version")]
pub(crate) struct Account {
    pub(crate) id: String,
    pub(crate) balance: i64,
    pub(crate) version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Transition)]
#[transition(table = "orders", key = "id", state = "state", version = "version")]
pub(crate) enum OrderState {
    #[transition(initial, to(Paid))]
    Placed,
    #[transition(to(Placed))]
    Paid,
}

/// Accounts `a` with 100 and `b` with 0, and a paid order, all at version 1.
pub(crate) async fn rows<DB: TestEngine>(database: &TestDatabase<DB>) {
    let tables: [&'static str; 2] = [
        sql::<DB>(
            "CREATE TABLE account (id VARCHAR(20) PRIMARY KEY, balance BIGINT NOT NULL, version BIGINT NOT NULL)",
            "CREATE TABLE account (id VARBINARY(20) PRIMARY KEY, balance BIGINT NOT NULL, version BIGINT NOT NULL)",
        ),
        sql::<DB>(
            "CREATE TABLE orders (id VARCHAR(20) PRIMARY KEY, state VARCHAR(20) NOT NULL, version BIGINT NOT NULL)",
            "CREATE TABLE orders (id VARBINARY(20) PRIMARY KEY, state VARBINARY(20) NOT NULL, version BIGINT NOT NULL)",
        ),
    ];
    for table in tables {
        database.execute(table).await;
    }
    database.execute("INSERT INTO account VALUES ('a', 100, 1), ('b', 0, 1)").await;
    database.execute("INSERT INTO orders VALUES ('o', 'paid', 1)").await;
}

/// As an application has it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PayError {
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error(transparent)]
    State(#[from] StateConflict<OrderState>),
    #[error(transparent)]
    Database(#[from] Error),
    #[error("the bank wants it to be tried again")]
    BankIsBusy,
    #[error("there is no such account")]
    NoAccount,
}

impl<DB: Dialect> MayConflict<DB> for PayError {
    fn conflict(&self) -> Option<ConflictClass> {
        match self {
            Self::Conflict(conflict) => MayConflict::<DB>::conflict(conflict),
            // Its units decide by what the attempt has read, so a rerun may decide otherwise.
            Self::State(StateConflict::State { .. }) => Some(ConflictClass::State),
            Self::State(conflict) => MayConflict::<DB>::conflict(conflict),
            Self::Database(error) => MayConflict::<DB>::conflict(error),
            Self::BankIsBusy => Some(ConflictClass::Other),
            Self::NoAccount => None,
        }
    }
}

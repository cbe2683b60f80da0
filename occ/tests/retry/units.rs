//! The rows, and the errors that units of work end with.

use leastlock_core::{Dialect, Engine};
use leastlock_occ::{Conflict, ConflictClass, Error, MayConflict, Version, Versioned};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};

#[derive(Debug, Clone, PartialEq, Eq, Versioned)]
#[versioned(table = "account", key = "id", version = "version")]
pub(crate) struct Account {
    pub(crate) id: String,
    pub(crate) balance: i64,
    pub(crate) version: Version,
}

pub(crate) const BALANCE_A: &str = "SELECT balance FROM account WHERE id = 'a'";
pub(crate) const BALANCE_B: &str = "SELECT balance FROM account WHERE id = 'b'";
pub(crate) const RIVAL: &str = "UPDATE account SET balance = balance + 5, version = version + 1 WHERE id = 'a'";

/// Accounts `a` with 100 and `b` with 0, at version 1.
pub(crate) async fn accounts<DB: TestEngine>(database: &TestDatabase<DB>) {
    let table = sql::<DB>(
        "CREATE TABLE account (id VARCHAR(20) PRIMARY KEY, balance BIGINT NOT NULL, version BIGINT NOT NULL)",
        "CREATE TABLE account (id VARBINARY(20) PRIMARY KEY, balance BIGINT NOT NULL, version BIGINT NOT NULL)",
    );
    database.execute(table).await;
    database.execute("INSERT INTO account VALUES ('a', 100, 1), ('b', 0, 1)").await;
}

pub(crate) async fn reset<DB: TestEngine>(database: &TestDatabase<DB>) {
    database.execute("UPDATE account SET version = 1, balance = CASE id WHEN 'a' THEN 100 ELSE 0 END").await;
}

/// Begins a transaction in which a rival can come between a read and a write: SQLite's own kind leaves no room for one.
pub(crate) const fn begin_open<DB: Dialect>() -> &'static str {
    match DB::ENGINE {
        Engine::Sqlite => "BEGIN",
        _ => DB::BEGIN_WRITE,
    }
}

/// Begins a transaction that refuses to write over what has changed since its first read.
pub(crate) const fn begin_isolated<DB: Dialect>() -> &'static str {
    match DB::ENGINE {
        Engine::Sqlite => "BEGIN",
        Engine::Postgres => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        _ => "SET innodb_snapshot_isolation = ON; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION",
    }
}

/// What the scenarios need of an error: the real one, or a double.
pub(crate) trait UnitError<DB: Dialect>:
    MayConflict<DB> + From<Error> + From<Conflict> + std::fmt::Debug + Send + 'static
{
}

impl<DB: Dialect, E> UnitError<DB> for E where
    E: MayConflict<DB> + From<Error> + From<Conflict> + std::fmt::Debug + Send + 'static
{
}

/// As an application has it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PayError {
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error(transparent)]
    Database(#[from] Error),
    #[error("gave up")]
    GaveUp,
}

impl<DB: Dialect> MayConflict<DB> for PayError {
    fn conflict(&self) -> Option<ConflictClass> {
        match self {
            Self::Conflict(conflict) => MayConflict::<DB>::conflict(conflict),
            Self::Database(error) => MayConflict::<DB>::conflict(error),
            Self::GaveUp => None,
        }
    }
}

macro_rules! double {
    ($(#[$doc:meta])* $name:ident, $is_conflict:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name(PayError);

        impl<T: Into<PayError>> From<T> for $name {
            fn from(error: T) -> Self {
                Self(error.into())
            }
        }

        impl<DB: Dialect> MayConflict<DB> for $name {
            fn conflict(&self) -> Option<ConflictClass> {
                let is_conflict: fn(&PayError) -> bool = $is_conflict;
                is_conflict(&self.0).then_some(ConflictClass::Other)
            }
        }
    };
}

double!(
    /// O9: has heard of version columns only, and leaves the engine's own conflicts to the user.
    KnowsVersionsOnly,
    |error| matches!(error, PayError::Conflict(_))
);
double!(
    /// O9: has heard of the engine's codes only.
    KnowsCodesOnly,
    |error| matches!(error, PayError::Database(Error::Database { class, .. }) if class.is_conflict())
);
double!(
    /// Takes every error for one that a rerun can help with, a commit whose reply was lost included.
    RunsEverythingAgain,
    |_| true
);

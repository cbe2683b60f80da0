//! What the cases need of an implementation, and the two real ones.

use leastlock_core::Dialect;
use leastlock_occ::{Checked, Column, Conflict, Delete, Stored, Update, Version, Versioned, versioned};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{Connection, Transaction};

#[derive(Debug, Clone, PartialEq, Eq, Versioned)]
#[versioned(table = "account", key = "id", version = "version")]
pub(crate) struct Account {
    pub(crate) id: String,
    pub(crate) balance: i64,
    pub(crate) version: Version,
}

/// What a write said of itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Applied,
    Stale { expected: i64, actual: i64 },
    Gone,
    Failed(String),
}

/// Checked writes to account `a`. The value is `&mut` for the doubles' sake, which change it.
pub(crate) trait Accounts<DB: TestEngine> {
    async fn load(connection: &mut DB::Connection) -> Result<Account, String>;
    async fn add(tx: &mut Transaction<'_, DB>, account: &mut Account, amount: i64) -> Verdict;
    async fn delete(tx: &mut Transaction<'_, DB>, account: &mut Account) -> Verdict;
}

/// The derived methods.
pub(crate) struct Derived;

impl<DB: TestEngine> Accounts<DB> for Derived
where
    Account: Stored<DB>,
{
    async fn load(connection: &mut DB::Connection) -> Result<Account, String> {
        let account = Account::load(connection, "a").await.map_err(|error| error.to_string())?;
        account.ok_or_else(|| "no account".to_owned())
    }

    async fn add(tx: &mut Transaction<'_, DB>, account: &mut Account, amount: i64) -> Verdict {
        match account.update(&mut **tx, |a| a.balance += amount).await {
            Ok(Update::Applied(new)) => {
                let expected = (account.balance + amount, account.version.next().expect("a successor"));
                assert_eq!((new.balance, new.version), expected);
                Verdict::Applied
            }
            Ok(Update::Conflict(conflict)) => conflict.into(),
            Err(error) => Verdict::Failed(error.to_string()),
        }
    }

    async fn delete(tx: &mut Transaction<'_, DB>, account: &mut Account) -> Verdict {
        match account.delete(&mut **tx).await {
            Ok(Delete::Applied) => Verdict::Applied,
            Ok(Delete::Conflict(conflict)) => conflict.into(),
            Err(error) => Verdict::Failed(error.to_string()),
        }
    }
}

/// `versioned(…)` for the update; the rest as derived.
pub(crate) struct HandWritten;

/// Binds the amount and the expected version.
pub(crate) const fn adding<DB: Dialect>() -> &'static str {
    sql::<DB>(
        "UPDATE account SET balance = balance + $1, version = version + 1 WHERE id = 'a' AND version = $2",
        "UPDATE account SET balance = balance + ?, version = version + 1 WHERE id = 'a' AND version = ?",
    )
}

/// What the version is now; on MySQL whatever the transaction's snapshot shows.
pub(crate) const fn actual<DB: Dialect>() -> &'static str {
    sql::<DB>(VERSION, "SELECT version FROM account WHERE id = 'a' LOCK IN SHARE MODE")
}

pub(crate) const VERSION: &str = "SELECT version FROM account WHERE id = 'a'";

impl<DB: TestEngine> Accounts<DB> for HandWritten
where
    Account: Stored<DB>,
    i64: Column<DB>,
{
    async fn load(connection: &mut DB::Connection) -> Result<Account, String> {
        Derived::load(connection).await
    }

    async fn add(tx: &mut Transaction<'_, DB>, account: &mut Account, amount: i64) -> Verdict {
        let update = sqlx::query(adding::<DB>()).bind(amount).bind(account.version.as_i64());
        match versioned(update, account.version).actual_by(sqlx::query(actual::<DB>())).execute(tx).await {
            Ok(Checked::Applied(version)) => {
                assert_eq!(version, account.version.next().expect("a successor"));
                Verdict::Applied
            }
            Ok(Checked::Conflict(conflict)) => conflict.into(),
            Ok(Checked::Refused) => Verdict::Failed("refused".to_owned()),
            Err(error) => Verdict::Failed(error.to_string()),
        }
    }

    async fn delete(tx: &mut Transaction<'_, DB>, account: &mut Account) -> Verdict {
        Derived::delete(tx, account).await
    }
}

impl From<Conflict> for Verdict {
    fn from(conflict: Conflict) -> Self {
        match conflict {
            Conflict::Stale { expected, actual } => {
                Self::Stale { expected: expected.as_i64(), actual: actual.as_i64() }
            }
            Conflict::Gone => Self::Gone,
        }
    }
}

/// The table, with account `a` at version 1 and balance 100.
pub(crate) async fn account_table<DB: TestEngine>(database: &TestDatabase<DB>) {
    let table = sql::<DB>(
        "CREATE TABLE account (id VARCHAR(20) PRIMARY KEY, balance BIGINT NOT NULL, version BIGINT)",
        "CREATE TABLE account (id VARBINARY(20) PRIMARY KEY, balance BIGINT NOT NULL, version BIGINT)",
    );
    database.execute(table).await;
    database.execute("INSERT INTO account VALUES ('a', 100, 1)").await;
}

/// Account `a` as it was at the start.
pub(crate) async fn reset<DB: TestEngine>(database: &TestDatabase<DB>) {
    database.execute("DELETE FROM account").await;
    database.execute("INSERT INTO account VALUES ('a', 100, 1)").await;
}

pub(crate) async fn load<DB: TestEngine, I: Accounts<DB>>(database: &TestDatabase<DB>) -> Result<Account, String> {
    let mut connection = database.pool.acquire().await.expect("a connection");
    I::load(&mut connection).await
}

/// An update in a transaction of its own, which commits whatever the outcome.
pub(crate) async fn add<DB: TestEngine, I: Accounts<DB>>(
    database: &TestDatabase<DB>,
    account: &mut Account,
    amount: i64,
) -> Verdict {
    let mut connection = database.pool.acquire().await.expect("a connection");
    let mut tx = connection.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let verdict = I::add(&mut tx, account, amount).await;
    tx.commit().await.expect("the commit");
    verdict
}

/// A delete in a transaction of its own, which commits whatever the outcome.
pub(crate) async fn delete<DB: TestEngine, I: Accounts<DB>>(
    database: &TestDatabase<DB>,
    account: &mut Account,
) -> Verdict {
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let verdict = I::delete(&mut tx, account).await;
    tx.commit().await.expect("the commit");
    verdict
}

/// `Err` with what was found, unless it is what is right.
pub(crate) fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, right: &T) -> Result<(), String> {
    if found == right { Ok(()) } else { Err(format!("{what}: {found:?} instead of {right:?}")) }
}

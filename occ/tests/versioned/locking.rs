//! A row that several statements must see unchanged: locked, and, as the mistake, only read.

use std::time::Duration;

use leastlock_core::{Engine, Statement};
use leastlock_occ::{Column, Error, Stored, Update};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{Pool, Transaction};
use tokio::task::JoinSet;

use super::accounts::{Account, Derived, account_table, load, reset};

const WRITERS: i64 = 6;
/// Between read and write: enough for the other writers to read as well, if they can.
const THINKING: Duration = Duration::from_millis(30);

trait Reads<DB: TestEngine> {
    fn read(tx: &mut Transaction<'_, DB>) -> impl Future<Output = Result<Option<Account>, Error>> + Send;
}

struct Locks;

impl<DB: TestEngine> Reads<DB> for Locks
where
    Account: Stored<DB>,
{
    async fn read(tx: &mut Transaction<'_, DB>) -> Result<Option<Account>, Error> {
        Account::lock_row(tx, "a").await
    }
}

/// Takes a row that it has read for a row that stays as it is.
struct OnlyReads;

impl<DB: TestEngine> Reads<DB> for OnlyReads
where
    Account: Stored<DB>,
{
    async fn read(tx: &mut Transaction<'_, DB>) -> Result<Option<Account>, Error> {
        Account::load(&mut **tx, "a").await
    }
}

/// Adds 1 in several statements and without a check of the version, in a transaction that began as `BEGIN` does.
async fn add_one<DB: TestEngine, R: Reads<DB>>(pool: Pool<DB>, set: &'static str) -> Result<(), String> {
    let mut tx = pool.begin().await.map_err(|error| error.to_string())?;
    let account = R::read(&mut tx).await.map_err(|error| error.to_string())?.ok_or("no account")?;
    tokio::time::sleep(THINKING).await;
    let write = Statement::new(set).bind(account.balance + 1);
    write.execute::<DB>(&mut tx).await.map_err(|error| error.to_string())?;
    tx.commit().await.map_err(|error| error.to_string())
}

/// Whether as many units were added as there are writers. SQLite tells the second of two that read before they write.
async fn judge<DB: TestEngine, R: Reads<DB> + 'static>(database: &TestDatabase<DB>) -> Result<(), String>
where
    Account: Stored<DB>,
    i64: Column<DB>,
{
    reset(database).await;
    let before = load::<DB, Derived>(database).await?.balance;
    let set = leastlock_testkit::database::sql::<DB>(
        "UPDATE account SET balance = $1 WHERE id = 'a'",
        "UPDATE account SET balance = ? WHERE id = 'a'",
    );
    let mut writers: JoinSet<_> = (0..WRITERS).map(|_| add_one::<DB, R>(database.pool.clone(), set)).collect();
    while let Some(written) = writers.join_next().await {
        written.expect("no panic")?;
    }
    let added = load::<DB, Derived>(database).await?.balance - before;
    if added == WRITERS { Ok(()) } else { Err(format!("{added} of {WRITERS} additions are there")) }
}

pub(crate) async fn a_locked_row_stays_as_it_was_read<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
    i64: Column<DB>,
{
    account_table(&database).await;
    judge::<DB, Locks>(&database).await.expect("it is right");
    let caught = judge::<DB, OnlyReads>(&database).await.expect_err("the double is not caught");
    let expected = if DB::ENGINE == Engine::Sqlite { "database is locked" } else { "additions are there" };
    assert!(caught.contains(expected), "{caught}");
}

pub(crate) async fn a_locked_row_is_updated_without_a_conflict_and_one_that_is_not_there_is_none<DB: TestEngine>(
    database: TestDatabase<DB>,
) where
    Account: Stored<DB>,
    i64: Column<DB>,
{
    account_table(&database).await;
    reset(&database).await;
    let mut tx = database.pool.begin().await.expect("a transaction");
    assert_eq!(Account::lock_row(&mut tx, "nobody").await.expect("an answer"), None);
    let account = Account::lock_row(&mut tx, "a").await.expect("an answer").expect("the account");
    let updated = account.update(&mut *tx, |account| account.balance += 1).await.expect("an answer");
    assert!(matches!(updated, Update::Applied(_)), "{updated:?}");
    tx.commit().await.expect("the commit");
}

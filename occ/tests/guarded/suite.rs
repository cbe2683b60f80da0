//! The cases, over any engine and over the implementation that they judge.

use std::sync::Arc;

use leastlock_core::{Dialect, Engine};
use leastlock_occ::{Bound, Error, Guarded, guarded};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{Connection, Pool};
use tokio::sync::Barrier;

use super::doubles::{OnlyReturnsTheError, ReadsDecidesWrites};

pub(crate) const EMPTY_ALL: &str = "UPDATE stock SET units = 0";
const TAKE_ONE: &str = "UPDATE stock SET units = units - 1 WHERE code = '85123A' AND units >= 1";
const TAKE_ONE_OF_EACH: &str = "UPDATE stock SET units = units - 1 WHERE units >= 1";

pub(crate) const fn sum<DB: Dialect>() -> &'static str {
    sql::<DB>("SELECT CAST(sum(units) AS BIGINT) FROM stock", "SELECT CAST(sum(units) AS SIGNED) FROM stock")
}

const fn stock_table<DB: Dialect>() -> &'static str {
    sql::<DB>(
        "CREATE TABLE stock (code VARCHAR(20) PRIMARY KEY, units BIGINT NOT NULL)",
        "CREATE TABLE stock (code VARBINARY(20) PRIMARY KEY, units BIGINT NOT NULL)",
    )
}

const CLIENTS: usize = 200;
const STOCK: i64 = 100;

pub(crate) async fn stock_of_two_codes<DB: TestEngine>(database: &TestDatabase<DB>) {
    database.execute(stock_table::<DB>()).await;
    database.execute("INSERT INTO stock VALUES ('85123A', 5), ('85123a', 7)").await;
}

pub(crate) async fn a_refused_statement_is_told_from_an_applied_one<DB: TestEngine>(database: TestDatabase<DB>) {
    stock_of_two_codes(&database).await;
    let mut connection = database.pool.acquire().await.expect("a connection");
    let applied = guarded(sqlx::query(TAKE_ONE_OF_EACH)).execute(&mut *connection).await.expect("it runs");
    assert_eq!(applied, Guarded::Applied { rows: 2 });
    assert!(applied.is_applied() && !applied.is_refused());

    // The count of an earlier statement must not be taken for this one's.
    let refused = sql::<DB>(
        "INSERT INTO stock VALUES ('85123A', 1) ON CONFLICT (code) DO NOTHING",
        "INSERT INTO stock SELECT '85123A', 1 FROM dual WHERE NOT EXISTS (SELECT 1 FROM stock WHERE code = '85123A')",
    );
    for refused in [refused, "UPDATE stock SET units = 0 WHERE units > 100", "DELETE FROM stock WHERE code = 'none'"] {
        let refused = guarded(sqlx::query(refused)).execute(&mut *connection).await.expect("it runs");
        assert!(refused.is_refused() && !refused.is_applied());
    }
}

pub(crate) async fn a_bound_admits_what_it_says_and_the_transaction_commits<DB: TestEngine>(
    database: TestDatabase<DB>,
) {
    stock_of_two_codes(&database).await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let each = || guarded(sqlx::query::<DB>(TAKE_ONE_OF_EACH));
    for admitted in [each().exactly(2), each().at_least(1), each().at_most(2)] {
        assert_eq!(admitted.execute(&mut tx).await.expect("within the bound"), Guarded::Applied { rows: 2 });
    }
    let none = guarded(sqlx::query("DELETE FROM stock WHERE code = 'none'")).exactly(1).execute(&mut tx).await;
    assert!(none.expect("no row means refused, not a broken bound").is_refused());
    tx.commit().await.expect("the commit");
    assert_eq!(database.int(sum::<DB>()).await, 6);
}

/// Runs a statement that may change one row only; whatever it does, the caller commits.
pub(crate) trait ExactlyOne<DB: Dialect> {
    async fn exactly_one(tx: &mut sqlx::Transaction<'_, DB>, sql: &'static str) -> Result<Guarded, Error>;
}

struct Real;

impl<DB: Dialect> ExactlyOne<DB> for Real {
    async fn exactly_one(tx: &mut sqlx::Transaction<'_, DB>, sql: &'static str) -> Result<Guarded, Error> {
        guarded(sqlx::query(sql)).exactly(1).execute(tx).await
    }
}

pub(crate) async fn o11_more_rows_than_allowed_cannot_be_committed<DB: TestEngine>(database: TestDatabase<DB>) {
    stock_of_two_codes(&database).await;
    assert_eq!(careless_commit::<DB, Real>(&database).await, Ok(()));
    assert!(careless_commit::<DB, OnlyReturnsTheError>(&database).await.is_err(), "the double is not caught");
}

/// A caller who looks neither at the error nor at what follows it.
async fn careless_commit<DB: TestEngine, I: ExactlyOne<DB>>(database: &TestDatabase<DB>) -> Result<(), String> {
    let before = database.int(sum::<DB>()).await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    match I::exactly_one(&mut tx, EMPTY_ALL).await {
        Err(Error::RowsOutOfBounds { expected: Bound::Exactly(1), actual: 2 }) => {}
        other => return Err(format!("two rows for one: {other:?}")),
    }
    let more = guarded(sqlx::query("UPDATE stock SET units = units + 1000")).execute(&mut *tx).await;
    let committed = tx.commit().await;
    match DB::ENGINE {
        Engine::Sqlite if committed.is_ok() => return Err("the commit was accepted".into()),
        Engine::Postgres | Engine::MySql if more.is_ok() => return Err("a further statement was accepted".into()),
        _ => {}
    }
    let after = database.int(sum::<DB>()).await;
    if after == before { Ok(()) } else { Err(format!("{before} units became {after}")) }
}

pub(crate) async fn o11_the_connection_works_after_a_broken_bound<DB: TestEngine>(database: TestDatabase<DB>) {
    stock_of_two_codes(&database).await;
    // One connection of the pool, so that it is this one that is used again.
    let mut connection = database.pool.acquire().await.expect("a connection");
    for (round, ending) in (1..).zip(["commit", "rollback", "drop", "commit", "drop"]) {
        let mut tx = connection.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        for _ in 0..2 {
            // The second one meets an aborted transaction on PostgreSQL, a poisoned one on SQLite and MySQL.
            guarded(sqlx::query(EMPTY_ALL)).exactly(1).execute(&mut tx).await.expect_err("two rows for one");
        }
        match ending {
            "commit" => drop(tx.commit().await),
            "rollback" => tx.rollback().await.expect("the rollback"),
            _ => drop(tx),
        }
        let mut tx = connection.begin_with(DB::BEGIN_WRITE).await.expect("a transaction on the same connection");
        let taken = guarded(sqlx::query(TAKE_ONE)).exactly(1).execute(&mut tx).await.expect("it runs");
        assert!(taken.is_applied());
        tx.commit().await.expect("the commit");
        assert_eq!(database.int(sum::<DB>()).await, 12 - round, "after {ending}");
    }
}

pub(crate) async fn o11_a_savepoint_rolled_back_frees_the_outer_transaction<DB: TestEngine>(
    database: TestDatabase<DB>,
) {
    stock_of_two_codes(&database).await;
    let mut outer = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let taken = guarded(sqlx::query(TAKE_ONE)).exactly(1).execute(&mut outer).await.expect("it runs");
    assert!(taken.is_applied());
    let mut inner = outer.begin().await.expect("a savepoint");
    guarded(sqlx::query(EMPTY_ALL)).exactly(1).execute(&mut inner).await.expect_err("two rows for one");
    let rolled_back = inner.rollback().await;
    if DB::ENGINE == Engine::MySql {
        // There the whole transaction is undone, and the outer one hears of it too.
        rolled_back.expect_err("the savepoint is gone");
        outer.commit().await.expect_err("nothing is left to commit");
        assert_eq!(database.int(sum::<DB>()).await, 12);
        return;
    }
    rolled_back.expect("the savepoint is rolled back");
    outer.commit().await.expect("what came before the savepoint is committed");
    assert_eq!(database.int(sum::<DB>()).await, 11);
}

/// Takes one unit of the row with code `85123A`; answers whether there was one.
pub(crate) trait Shop<DB: TestEngine> {
    fn buy(pool: Pool<DB>, all_have_read: Arc<Barrier>) -> impl Future<Output = bool> + Send + 'static;
}

impl<DB: TestEngine> Shop<DB> for Real {
    async fn buy(pool: Pool<DB>, all_have_read: Arc<Barrier>) -> bool {
        // Nothing to read: the statement decides.
        all_have_read.wait().await;
        let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        let taken = guarded(sqlx::query(TAKE_ONE)).exactly(1).execute(&mut tx).await.expect("it runs");
        tx.commit().await.expect("the commit");
        taken.is_applied()
    }
}

pub(crate) async fn o15_two_hundred_clients_sell_exactly_the_stock<DB: TestEngine>(database: TestDatabase<DB>) {
    database.execute(stock_table::<DB>()).await;
    database.execute("INSERT INTO stock VALUES ('85123A', 0)").await;
    assert_eq!(storm::<DB, Real>(&database).await, (100, 100, 0));
    let (sold, ..) = storm::<DB, ReadsDecidesWrites>(&database).await;
    assert!(sold > 100, "the double is not caught");
}

/// Answers how many bought, how many were refused, and what is left.
async fn storm<DB: TestEngine, I: Shop<DB>>(database: &TestDatabase<DB>) -> (usize, usize, i64) {
    assert_eq!(STOCK, 100, "the statement below says so as well");
    database.execute("UPDATE stock SET units = 100").await;
    let all_have_read = Arc::new(Barrier::new(CLIENTS));
    let client = |_| tokio::spawn(I::buy(database.pool.clone(), Arc::clone(&all_have_read)));
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    let mut sold = 0;
    for client in clients {
        sold += usize::from(client.await.expect("a client ends"));
    }
    (sold, CLIENTS - sold, database.int(sum::<DB>()).await)
}

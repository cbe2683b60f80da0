//! The scenarios, over any engine and over the implementation that they judge.

use std::sync::Arc;

use leastlock_core::{Engine, ErrorClass, Statement};
use leastlock_occ::{Column, Error, Insertion, insert_once};
#[cfg(feature = "mysql")]
use leastlock_testkit::database::MySql;
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use tokio::sync::Barrier;

use super::doubles::{LooksFirst, SwallowsErrors};

const CLIENTS: usize = 8;
const REDEEM: &str = "INSERT INTO coupon (code, customer) VALUES ($1, $2) ON CONFLICT (code) DO NOTHING";
const PLAIN: &str = "INSERT INTO coupon (code, customer) VALUES ($1, $2)";
const PLAIN_MYSQL: &str = "INSERT INTO coupon (code, customer) VALUES (?, ?)";
const COUNT: &str = "SELECT count(*) FROM coupon";

async fn coupons<DB: TestEngine>(database: &TestDatabase<DB>) {
    let table = sql::<DB>(
        "CREATE TABLE coupon (code VARCHAR(6) PRIMARY KEY, customer BIGINT NOT NULL)",
        "CREATE TABLE coupon (code VARBINARY(6) PRIMARY KEY, customer BIGINT NOT NULL)",
    );
    database.execute(table).await;
}

/// Redeems a coupon for a customer; answers whether it was the first to.
pub(crate) trait Redeem<DB: TestEngine>: 'static {
    fn redeem(
        connection: &mut DB::Connection,
        code: &'static str,
        customer: Option<i64>,
        all_have_looked: &Barrier,
    ) -> impl Future<Output = Result<Insertion, Error>> + Send;
}

pub(crate) struct Real;

impl<DB: TestEngine> Redeem<DB> for Real {
    async fn redeem(
        connection: &mut DB::Connection,
        code: &'static str,
        customer: Option<i64>,
        all_have_looked: &Barrier,
    ) -> Result<Insertion, Error> {
        all_have_looked.wait().await;
        let insert = Statement::new(sql::<DB>(REDEEM, PLAIN_MYSQL)).bind(code).bind(customer);
        insert_once(insert.into_query::<DB>().expect("a query")).execute(connection).await
    }
}

pub(crate) async fn one_of_many_concurrent_inserts_of_a_key_is_the_first<DB: TestEngine>(database: TestDatabase<DB>) {
    coupons(&database).await;
    assert_eq!(firsts::<DB, Real>(&database, "SPRING").await, 1);
    assert!(firsts::<DB, LooksFirst>(&database, "SUMMER").await > 1, "the double is not caught");
}

/// How many of the clients were told that they were the first.
async fn firsts<DB: TestEngine, I: Redeem<DB>>(database: &TestDatabase<DB>, code: &'static str) -> usize {
    let all_have_looked = Arc::new(Barrier::new(CLIENTS));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (pool, all_have_looked) = (database.pool.clone(), Arc::clone(&all_have_looked));
            tokio::spawn(async move {
                let mut connection = pool.acquire().await.expect("a connection");
                let customer = i64::try_from(client).expect("a small number");
                I::redeem(&mut connection, code, Some(customer), &all_have_looked).await.expect("an outcome")
            })
        })
        .collect();
    let mut firsts = 0;
    for client in clients {
        firsts += usize::from(client.await.expect("a client ends").is_inserted());
    }
    firsts
}

pub(crate) async fn an_error_that_is_no_duplicate_is_never_swallowed<DB: TestEngine>(database: TestDatabase<DB>) {
    coupons(&database).await;
    match without_a_customer::<DB, Real>(&database).await {
        Err(Error::Database { class: ErrorClass::Other, .. }) => {}
        other => panic!("NULL where none is allowed: {other:?}"),
    }
    assert_eq!(database.int(COUNT).await, 0);
    assert!(without_a_customer::<DB, SwallowsErrors>(&database).await.is_ok(), "the double is not caught");
}

async fn without_a_customer<DB: TestEngine, I: Redeem<DB>>(database: &TestDatabase<DB>) -> Result<Insertion, Error> {
    let mut connection = database.pool.acquire().await.expect("a connection");
    I::redeem(&mut connection, "SPRING", None, &Barrier::new(1)).await
}

pub(crate) async fn a_duplicate_leaves_the_transaction_usable_or_says_that_it_does_not<DB: TestEngine>(
    database: TestDatabase<DB>,
) where
    i64: Column<DB>,
{
    coupons(&database).await;
    let plain = |customer: i64| {
        let insert = Statement::new(sql::<DB>(PLAIN, PLAIN_MYSQL)).bind("SPRING").bind(customer);
        insert_once(insert.into_query::<DB>().expect("a query"))
    };
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    for right in [Insertion::Inserted, Insertion::AlreadyThere, Insertion::AlreadyThere] {
        assert_eq!(Real::redeem_in::<DB>(&mut tx).await.expect("an outcome"), right);
    }
    tx.commit().await.expect("the commit");
    assert_eq!(database.int(COUNT).await, 1);

    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let again = plain(8).execute(&mut *tx).await;
    if DB::ENGINE == Engine::Postgres {
        assert!(matches!(again, Err(Error::DuplicateAborted { .. })), "{again:?}");
    } else {
        assert_eq!(again.expect("an outcome"), Insertion::AlreadyThere);
    }
    drop(tx);

    // Without a transaction there is none to abort.
    let mut connection = database.pool.acquire().await.expect("a connection");
    assert_eq!(plain(9).execute(&mut *connection).await.expect("an outcome"), Insertion::AlreadyThere);
    assert_eq!(database.int("SELECT customer FROM coupon").await, 7);
}

impl Real {
    async fn redeem_in<DB: TestEngine>(tx: &mut sqlx::Transaction<'_, DB>) -> Result<Insertion, Error> {
        <Self as Redeem<DB>>::redeem(&mut **tx, "SPRING", Some(7), &Barrier::new(1)).await
    }
}

pub(crate) async fn more_than_one_row_is_out_of_bounds<DB: TestEngine>(database: TestDatabase<DB>) {
    coupons(&database).await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let two = insert_once(sqlx::query("INSERT INTO coupon VALUES ('A', 1), ('B', 2)")).execute(&mut *tx).await;
    assert!(matches!(two, Err(Error::RowsOutOfBounds { actual: 2, .. })), "{two:?}");
    drop(tx.commit().await);
    assert_eq!(database.int(COUNT).await, 0);
}

#[cfg(feature = "mysql")]
pub(crate) async fn insert_ignore_is_refused_where_it_hides_something(database: TestDatabase<MySql>) {
    coupons(&database).await;
    database.execute("INSERT INTO coupon VALUES ('SPRING', 7)").await;
    let mut connection = database.pool.acquire().await.expect("a connection");
    let ignored = "INSERT IGNORE INTO coupon VALUES ('SPRING', 8)";
    let ignored = insert_once(sqlx::query(ignored)).execute(&mut *connection).await;
    assert!(matches!(ignored, Err(Error::RowsOutOfBounds { actual: 0, .. })), "{ignored:?}");
}

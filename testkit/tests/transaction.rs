//! The transactions of the library's own: what a dropped future leaves behind, and what an aborted one answers.

use std::time::Duration;

use leastlock_core::{Dialect, begin, commit};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Postgres;
use leastlock_testkit::proxy::{FaultProxy, postgres};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

/// How a transaction is begun.
#[derive(Clone, Copy)]
enum Begun {
    Product,
    /// The double: sqlx's own.
    Bare,
}

/// Drops a `BEGIN` while its reply is delayed, then lets the next user of the connection insert a row. Answers whether the
/// row is there for others.
async fn next_statement_is_kept(how: Begun) -> bool {
    let database = TestDatabase::<Postgres>::create().await;
    database.execute("CREATE TABLE kept (id bigint)").await;
    let proxy = FaultProxy::to_postgres(&database.url).await;
    let through: PgConnectOptions = postgres::through(&proxy, &database.url).parse().unwrap();
    // No ping before the BEGIN, which would be what is dropped.
    let options = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    let pool: PgPool = options.connect_with(through).await.unwrap();
    sqlx::query("SELECT 1").execute(&pool).await.unwrap();
    // The pool pings a connection that it gets back, and it is the BEGIN whose reply must be late.
    while pool.num_idle() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    proxy.delay(Duration::from_millis(300));
    let limit = Duration::from_millis(100);
    let dropped = match how {
        Begun::Product => tokio::time::timeout(limit, begin(&pool)).await.is_err(),
        Begun::Bare => tokio::time::timeout(limit, pool.begin_with(Postgres::BEGIN_WRITE)).await.is_err(),
    };
    assert!(dropped, "the reply is late");
    proxy.heal();
    sqlx::query("INSERT INTO kept VALUES (1)").execute(&pool).await.unwrap();
    database.int("SELECT count(*) FROM kept").await == 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_begin_leaves_no_transaction_in_the_pool() {
    assert!(next_statement_is_kept(Begun::Product).await);
    assert!(!next_statement_is_kept(Begun::Bare).await, "the double's next statement must be seen to be lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_transaction_cannot_pass_for_a_committed_one() {
    let database = TestDatabase::<Postgres>::create().await;
    database.execute("CREATE TABLE kept (id bigint PRIMARY KEY)").await;
    let overlooked = async || {
        let mut tx = begin(&database.pool).await.unwrap();
        sqlx::query("INSERT INTO kept VALUES (1)").execute(&mut *tx).await.unwrap();
        let refused = sqlx::query("INSERT INTO kept VALUES (1)").execute(&mut *tx).await;
        assert!(refused.is_err());
        tx
    };
    assert!(commit(overlooked().await).await.is_err());
    assert!(overlooked().await.commit().await.is_ok(), "the double says that it committed");
    assert_eq!(database.int("SELECT count(*) FROM kept").await, 0);

    let mut tx = begin(&database.pool).await.unwrap();
    sqlx::query("INSERT INTO kept VALUES (2)").execute(&mut *tx).await.unwrap();
    commit(tx).await.unwrap();
    assert_eq!(database.int("SELECT count(*) FROM kept").await, 1);
}

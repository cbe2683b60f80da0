//! The faults that both protocols have, each on PostgreSQL and on MariaDB.

use std::time::Duration;

use leastlock_core::{ErrorClass, Statement, classify};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::sql;
use leastlock_testkit::proxy::statement::{is_commit, once};
use leastlock_testkit::proxy::{FaultProxy, Proxied, Then};
use sqlx::Connection;

pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Long enough for something that must *not* come; a slow machine can only make the check weaker, never fail it.
pub(crate) const SILENCE: Duration = Duration::from_millis(200);

pub(crate) const ROWS: &str = "SELECT count(*) FROM effect";

pub(crate) async fn database_and_proxy<DB: Proxied>() -> (TestDatabase<DB>, FaultProxy, DB::Connection) {
    let database = TestDatabase::<DB>::create().await;
    database.execute("CREATE TABLE effect (id BIGINT PRIMARY KEY)").await;
    let proxy = DB::proxy(&database.url).await;
    let connection = connect(&database, &proxy).await.expect("the proxy carries");
    (database, proxy, connection)
}

pub(crate) async fn connect<DB: Proxied>(
    database: &TestDatabase<DB>,
    proxy: &FaultProxy,
) -> Result<DB::Connection, sqlx::Error> {
    DB::Connection::connect(&DB::through(proxy, &database.url)).await
}

/// One transaction with a row in it, whose `COMMIT` is a query of its own.
pub(crate) async fn insert<DB: Proxied>(connection: &mut DB::Connection, id: i64) -> Result<(), sqlx::Error> {
    let mut tx = connection.begin().await?;
    let insert = sql::<DB>("INSERT INTO effect VALUES ($1)", "INSERT INTO effect VALUES (?)");
    Statement::new(insert).bind(id).execute::<DB>(&mut tx).await?;
    tx.commit().await
}

pub(crate) async fn without_a_fault_everything_is_carried<DB: Proxied>() {
    let (database, proxy, mut connection) = database_and_proxy::<DB>().await;
    insert::<DB>(&mut connection, 1).await.expect("no fault");
    assert_eq!(database.int(ROWS).await, 1);
    assert_eq!((proxy.connections(), proxy.losses()), (1, 0));
}

/// Commits a row while the `COMMIT`, or its reply, is lost; answers how many rows there are then.
async fn rows_after<DB: Proxied>(lose: impl FnOnce(&FaultProxy)) -> i64 {
    let (database, proxy, mut connection) = database_and_proxy::<DB>().await;
    lose(&proxy);
    let error = insert::<DB>(&mut connection, 1).await.expect_err("one of them is lost");
    assert_eq!(classify::<DB>(&error), ErrorClass::ConnectionLost, "{error}");
    assert!(classify::<DB>(&error).leaves_commit_unknown());
    assert_eq!(proxy.losses(), 1);
    database.int(ROWS).await
}

pub(crate) async fn commit_whose_reply_is_lost_took_effect_and_the_client_cannot_know<DB: Proxied>() {
    assert_eq!(rows_after::<DB>(|proxy| proxy.swallow_reply_to(is_commit(), Then::Cut)).await, 1);
}

pub(crate) async fn commit_whose_request_is_lost_looks_the_same_and_took_no_effect<DB: Proxied>() {
    assert_eq!(rows_after::<DB>(|proxy| proxy.lose_request(is_commit(), Then::Cut)).await, 0);
}

pub(crate) async fn commit_that_hangs_took_effect_while_the_client_still_waits<DB: Proxied>() {
    let (database, proxy, mut connection) = database_and_proxy::<DB>().await;
    proxy.swallow_reply_to(is_commit(), Then::Hang);
    let waiting = tokio::spawn(async move { insert::<DB>(&mut connection, 1).await });
    proxy.fired(1, LIMIT).await;
    assert_eq!(database.int(ROWS).await, 1);
    tokio::time::sleep(SILENCE).await;
    assert!(!waiting.is_finished());
    proxy.heal();
    let ended = tokio::time::timeout(LIMIT, waiting).await.expect("a healed connection does not hang");
    ended.expect("no panic").expect_err("its reply was lost for good");
}

pub(crate) async fn other_statements_are_left_alone_and_once_strikes_once<DB: Proxied>() {
    let (database, proxy, mut connection) = database_and_proxy::<DB>().await;
    proxy.swallow_reply_to(once(is_commit()), Then::Cut);
    let other = Statement::new("INSERT INTO effect VALUES (0)").execute::<DB>(&mut connection).await;
    assert_eq!(other.expect("it is no COMMIT"), 1);
    insert::<DB>(&mut connection, 1).await.expect_err("the first is lost");
    let mut connection = connect(&database, &proxy).await.expect("new connections are carried");
    insert::<DB>(&mut connection, 2).await.expect("the second is not");
    assert_eq!((database.int(ROWS).await, proxy.losses()), (3, 1));
}

pub(crate) async fn cut_ends_present_connections_and_refuses_new_ones_until_healed<DB: Proxied>() {
    let (database, proxy, mut connection) = database_and_proxy::<DB>().await;
    proxy.cut().await;
    insert::<DB>(&mut connection, 1).await.expect_err("the connection is cut");
    connect(&database, &proxy).await.map(|_| ()).expect_err("new ones are refused");
    proxy.heal();
    let mut connection = connect(&database, &proxy).await.expect("it is healed");
    insert::<DB>(&mut connection, 2).await.expect("it is healed");
    assert_eq!(database.int(ROWS).await, 1);
}

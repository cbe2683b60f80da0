//! The faults that are about statements, in MySQL's protocol; `proxy.rs` has the others, which read nothing.

use std::time::Duration;

use leastlock_core::{ErrorClass, classify};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::MySql;
use leastlock_testkit::proxy::{FaultProxy, Then, mysql};
use sqlx::{Connection, MySqlConnection};

const LIMIT: Duration = Duration::from_secs(30);

/// Long enough for something that must *not* come; a slow machine can only make the check weaker, never fail it.
const SILENCE: Duration = Duration::from_millis(200);

const ROWS: &str = "SELECT count(*) FROM effect";

async fn database_and_proxy() -> (TestDatabase<MySql>, FaultProxy, MySqlConnection) {
    let database = TestDatabase::<MySql>::create().await;
    database.execute("CREATE TABLE effect (id BIGINT PRIMARY KEY)").await;
    let proxy = FaultProxy::to_mysql(&database.url).await;
    let connection = connect(&database, &proxy).await.expect("the proxy carries");
    (database, proxy, connection)
}

async fn connect(database: &TestDatabase<MySql>, proxy: &FaultProxy) -> Result<MySqlConnection, sqlx::Error> {
    MySqlConnection::connect(&mysql::through(proxy, &database.url)).await
}

/// One transaction with a row in it, whose `COMMIT` is a query of its own.
async fn insert(connection: &mut MySqlConnection, id: i64) -> Result<(), sqlx::Error> {
    let mut tx = connection.begin().await?;
    sqlx::query("INSERT INTO effect VALUES (?)").bind(id).execute(&mut *tx).await?;
    tx.commit().await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_fault_everything_is_carried() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    insert(&mut connection, 1).await.expect("no fault");
    // More than one packet's worth of rows, and of one value.
    let many = "SELECT seq, REPEAT('x', 1000) FROM seq_1_to_5000";
    assert_eq!(sqlx::query(many).fetch_all(&mut connection).await.expect("no fault").len(), 5_000);
    let long: String =
        sqlx::query_scalar("SELECT REPEAT('x', ?)").bind(300_000).fetch_one(&mut connection).await.unwrap();
    assert_eq!(long.len(), 300_000);
    assert_eq!(database.int(ROWS).await, 1);
    assert_eq!((proxy.connections(), proxy.losses()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_whose_reply_is_lost_took_effect_and_the_client_cannot_know() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    proxy.swallow_reply_to(mysql::is_commit(), Then::Cut);
    let error = insert(&mut connection, 1).await.expect_err("the reply is lost");
    assert_eq!(classify::<MySql>(&error), ErrorClass::ConnectionLost, "{error}");
    assert!(classify::<MySql>(&error).leaves_commit_unknown());
    assert_eq!(proxy.losses(), 1);
    assert_eq!(database.int(ROWS).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_whose_request_is_lost_looks_the_same_and_took_no_effect() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    proxy.lose_request(mysql::is_commit(), Then::Cut);
    let error = insert(&mut connection, 1).await.expect_err("the request is lost");
    assert_eq!(classify::<MySql>(&error), ErrorClass::ConnectionLost, "{error}");
    assert_eq!(proxy.losses(), 1);
    assert_eq!(database.int(ROWS).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_that_hangs_took_effect_while_the_client_still_waits() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    proxy.swallow_reply_to(mysql::is_commit(), Then::Hang);
    let waiting = tokio::spawn(async move { insert(&mut connection, 1).await });
    proxy.fired(1, LIMIT).await;
    assert_eq!(database.int(ROWS).await, 1);
    tokio::time::sleep(SILENCE).await;
    assert!(!waiting.is_finished());
    proxy.heal();
    let ended = tokio::time::timeout(LIMIT, waiting).await.expect("a healed connection does not hang");
    ended.expect("no panic").expect_err("its reply was lost for good");
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statement_is_found_also_when_it_was_prepared_before_the_fault() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    let insert = "INSERT INTO effect VALUES (?)";
    for id in 1..=2 {
        if id == 2 {
            proxy.swallow_reply_to(move |sql| sql == insert, Then::Cut);
        }
        let inserted = sqlx::query(insert).bind(id).execute(&mut connection).await;
        assert_eq!(inserted.is_ok(), id == 1);
    }
    assert_eq!(proxy.losses(), 1);
    assert_eq!(database.int(ROWS).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_to_what_was_sent_before_still_arrive() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    // Not kept: closed as soon as it is executed, which has no answer.
    let once = sqlx::query("SELECT id FROM effect").persistent(false);
    assert!(once.fetch_all(&mut connection).await.expect("no fault").is_empty());
    proxy.swallow_reply_to(|sql| sql.starts_with("INSERT"), Then::Cut);
    // The dropped transaction's rollback is queued, and goes out with the next statement.
    drop(connection.begin().await.expect("it is no INSERT"));
    assert!(insert(&mut connection, 1).await.is_err(), "its reply is lost");
    proxy.fired(1, LIMIT).await;
    assert_eq!(database.int(ROWS).await, 0, "the INSERT took effect in a transaction that ended with its connection");

    proxy.heal();
    let mut connection = connect(&database, &proxy).await.expect("it is healed");
    proxy.swallow_reply_to(mysql::once(mysql::is_commit()), Then::Cut);
    insert(&mut connection, 2).await.expect_err("the first is lost");
    let mut connection = connect(&database, &proxy).await.expect("new connections are carried");
    insert(&mut connection, 3).await.expect("the second is not");
    assert_eq!((database.int(ROWS).await, proxy.losses()), (2, 2));
}

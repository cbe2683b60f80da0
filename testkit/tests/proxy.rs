//! The proxy's faults are what a client and a server meet in a real network, at the moment that the test chose.

use std::time::{Duration, Instant};

use leastlock_core::{ErrorClass, classify};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Postgres;
use leastlock_testkit::proxy::{FaultProxy, Then, postgres};
use sqlx::{Connection, PgConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const LIMIT: Duration = Duration::from_secs(30);

/// Long enough for something that must *not* come; a slow machine can only make the check weaker, never fail it.
const SILENCE: Duration = Duration::from_millis(200);

const ROWS: &str = "SELECT count(*) FROM effect";

async fn database_and_proxy() -> (TestDatabase<Postgres>, FaultProxy, PgConnection) {
    let database = TestDatabase::<Postgres>::create().await;
    database.execute("CREATE TABLE effect (id bigint PRIMARY KEY)").await;
    let proxy = FaultProxy::to_postgres(&database.url).await;
    let connection = connect(&database, &proxy).await.expect("the proxy carries");
    (database, proxy, connection)
}

async fn connect(database: &TestDatabase<Postgres>, proxy: &FaultProxy) -> Result<PgConnection, sqlx::Error> {
    PgConnection::connect(&postgres::through(proxy, &database.url)).await
}

/// One transaction with a row in it, whose `COMMIT` is a simple query.
async fn insert(connection: &mut PgConnection, id: i64) -> Result<(), sqlx::Error> {
    let mut tx = connection.begin().await?;
    sqlx::query("INSERT INTO effect VALUES ($1)").bind(id).execute(&mut *tx).await?;
    tx.commit().await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_fault_everything_is_carried() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    insert(&mut connection, 1).await.expect("no fault");
    assert_eq!(database.int(ROWS).await, 1);
    assert_eq!((proxy.connections(), proxy.losses()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_whose_reply_is_lost_took_effect_and_the_client_cannot_know() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    proxy.swallow_reply_to(postgres::is_commit(), Then::Cut);
    let error = insert(&mut connection, 1).await.expect_err("the reply is lost");
    assert_eq!(classify::<Postgres>(&error), ErrorClass::ConnectionLost, "{error}");
    assert!(classify::<Postgres>(&error).leaves_commit_unknown());
    assert_eq!(proxy.losses(), 1);
    assert_eq!(database.int(ROWS).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_whose_request_is_lost_looks_the_same_and_took_no_effect() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    proxy.lose_request(postgres::is_commit(), Then::Cut);
    let error = insert(&mut connection, 1).await.expect_err("the request is lost");
    assert_eq!(classify::<Postgres>(&error), ErrorClass::ConnectionLost, "{error}");
    assert_eq!(proxy.losses(), 1);
    assert_eq!(database.int(ROWS).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_that_hangs_took_effect_while_the_client_still_waits() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    proxy.swallow_reply_to(postgres::is_commit(), Then::Hang);
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
async fn commit_of_the_extended_protocol_is_found_also_when_it_was_prepared_before_the_fault() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    for id in 1..=2 {
        sqlx::raw_sql("BEGIN").execute(&mut connection).await.expect("no fault");
        sqlx::query("INSERT INTO effect VALUES ($1)").bind(id).execute(&mut connection).await.expect("no fault");
        if id == 2 {
            proxy.swallow_reply_to(postgres::is_commit(), Then::Cut);
        }
        let committed = sqlx::query("COMMIT").execute(&mut connection).await;
        assert_eq!(committed.is_ok(), id == 1);
    }
    assert_eq!(proxy.losses(), 1);
    assert_eq!(database.int(ROWS).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_statements_are_left_alone_and_once_strikes_once() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    proxy.swallow_reply_to(postgres::once(postgres::is_commit()), Then::Cut);
    sqlx::query("INSERT INTO effect VALUES (0)").execute(&mut connection).await.expect("it is no COMMIT");
    insert(&mut connection, 1).await.expect_err("the first is lost");
    let mut connection = connect(&database, &proxy).await.expect("new connections are carried");
    insert(&mut connection, 2).await.expect("the second is not");
    assert_eq!((database.int(ROWS).await, proxy.losses()), (3, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_ends_present_connections_and_refuses_new_ones_until_healed() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    proxy.cut().await;
    insert(&mut connection, 1).await.expect_err("the connection is cut");
    connect(&database, &proxy).await.expect_err("new ones are refused");
    proxy.heal();
    let mut connection = connect(&database, &proxy).await.expect("it is healed");
    insert(&mut connection, 2).await.expect("it is healed");
    assert_eq!(database.int(ROWS).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn black_hole_is_silent_and_keeps_the_servers_side_open() {
    let (database, proxy, mut connection) = database_and_proxy().await;
    sqlx::raw_sql("BEGIN; INSERT INTO effect VALUES (1)").execute(&mut connection).await.expect("no fault yet");
    proxy.black_hole();
    let query = sqlx::raw_sql("COMMIT").execute(&mut connection);
    tokio::time::timeout(SILENCE, query).await.expect_err("no answer comes");
    tokio::time::timeout(SILENCE, connect(&database, &proxy)).await.expect_err("new ones get none either");
    drop(connection);
    let idle =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'";
    tokio::time::sleep(SILENCE).await;
    assert_eq!(database.int(idle).await, 1, "the server has not noticed the client's end");
    proxy.heal();
    let deadline = Instant::now() + LIMIT;
    while database.int(idle).await > 0 {
        assert!(Instant::now() < deadline, "the healed proxy cuts what lost bytes");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut connection = connect(&database, &proxy).await.expect("it is healed");
    insert(&mut connection, 2).await.expect("it is healed");
    assert_eq!(database.int(ROWS).await, 1, "what was swallowed did not happen");
}

/// A server that is no database: it answers with what it is sent.
async fn echo() -> FaultProxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = client.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    FaultProxy::start(address).await
}

#[tokio::test(flavor = "multi_thread")]
async fn delay_holds_back_both_directions() {
    let proxy = echo().await;
    let mut client = TcpStream::connect(proxy.address()).await.expect("it listens");
    let delay = Duration::from_millis(40);
    proxy.delay(delay);
    let began = Instant::now();
    client.write_all(b"hello").await.expect("carried");
    let mut answer = [0; 5];
    client.read_exact(&mut answer).await.expect("carried");
    assert!(began.elapsed() >= 2 * delay, "there and back");
    assert_eq!(&answer, b"hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_carried_whole_with_their_ends() {
    let proxy = echo().await;
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| u8::try_from(n % 251).expect("small")).collect();
    let client = TcpStream::connect(proxy.address()).await.expect("it listens");
    let (mut from, mut to) = client.into_split();
    let bytes = sent.clone();
    tokio::spawn(async move {
        to.write_all(&bytes).await.expect("carried");
        to.shutdown().await.expect("carried");
    });
    let mut received = Vec::new();
    from.read_to_end(&mut received).await.expect("carried");
    assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "the fault struck 0 times on 1 connections, not 1")]
async fn fault_that_never_struck_fails_the_test() {
    let (_database, proxy, mut connection) = database_and_proxy().await;
    proxy.swallow_reply_to(|sql| sql == "never sent", Then::Cut);
    insert(&mut connection, 1).await.expect("no fault");
    proxy.fired(1, SILENCE).await;
}

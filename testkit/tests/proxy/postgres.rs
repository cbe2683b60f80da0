//! What is PostgreSQL's own, and what takes a look from inside its server.

use std::time::{Duration, Instant};

use leastlock_testkit::database::Postgres;
use leastlock_testkit::proxy::{Then, postgres};

use crate::suite::{LIMIT, ROWS, SILENCE, connect, database_and_proxy, insert};

#[tokio::test(flavor = "multi_thread")]
async fn commit_of_the_extended_protocol_is_found_also_when_it_was_prepared_before_the_fault() {
    let (database, proxy, mut connection) = database_and_proxy::<Postgres>().await;
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
async fn black_hole_is_silent_and_keeps_the_servers_side_open() {
    let (database, proxy, mut connection) = database_and_proxy::<Postgres>().await;
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
    insert::<Postgres>(&mut connection, 2).await.expect("it is healed");
    assert_eq!(database.int(ROWS).await, 1, "what was swallowed did not happen");
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "the fault struck 0 times on 1 connections, not 1")]
async fn fault_that_never_struck_fails_the_test() {
    let (_database, proxy, mut connection) = database_and_proxy::<Postgres>().await;
    proxy.swallow_reply_to(|sql| sql == "never sent", Then::Cut);
    insert::<Postgres>(&mut connection, 1).await.expect("no fault");
    proxy.fired(1, SILENCE).await;
}

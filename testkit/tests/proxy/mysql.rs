//! What is MySQL's own.

use leastlock_testkit::database::MySql;
use leastlock_testkit::proxy::{Then, mysql};
use sqlx::Connection;

use crate::suite::{LIMIT, ROWS, connect, database_and_proxy, insert};

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_many_packets_are_carried() {
    let (_database, _proxy, mut connection) = database_and_proxy::<MySql>().await;
    // More than one packet's worth of rows, and of one value.
    let many = "SELECT seq, REPEAT('x', 1000) FROM seq_1_to_5000";
    assert_eq!(sqlx::query(many).fetch_all(&mut connection).await.expect("no fault").len(), 5_000);
    let long: String =
        sqlx::query_scalar("SELECT REPEAT('x', ?)").bind(300_000).fetch_one(&mut connection).await.unwrap();
    assert_eq!(long.len(), 300_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statement_is_found_also_when_it_was_prepared_before_the_fault() {
    let (database, proxy, mut connection) = database_and_proxy::<MySql>().await;
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
    let (database, proxy, mut connection) = database_and_proxy::<MySql>().await;
    // Not kept: closed as soon as it is executed, which has no answer.
    let once = sqlx::query("SELECT id FROM effect").persistent(false);
    assert!(once.fetch_all(&mut connection).await.expect("no fault").is_empty());
    proxy.swallow_reply_to(|sql| sql.starts_with("INSERT"), Then::Cut);
    // The dropped transaction's rollback is queued, and goes out with the next statement.
    drop(connection.begin().await.expect("it is no INSERT"));
    assert!(insert::<MySql>(&mut connection, 1).await.is_err(), "its reply is lost");
    proxy.fired(1, LIMIT).await;
    assert_eq!(database.int(ROWS).await, 0, "the INSERT took effect in a transaction that ended with its connection");

    proxy.heal();
    let mut connection = connect(&database, &proxy).await.expect("it is healed");
    proxy.swallow_reply_to(mysql::once(mysql::is_commit()), Then::Cut);
    insert::<MySql>(&mut connection, 2).await.expect_err("the first is lost");
    let mut connection = connect(&database, &proxy).await.expect("new connections are carried");
    insert::<MySql>(&mut connection, 3).await.expect("the second is not");
    assert_eq!((database.int(ROWS).await, proxy.losses()), (2, 2));
}

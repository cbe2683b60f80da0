//! What is set on a connection for a handler's transaction is put back (MariaDB: elsewhere it goes with the transaction).

use std::time::Duration;

use leastlock_partition_worker::progress::Entry;
use leastlock_partition_worker::{MIGRATIONS, Timeouts};
use leastlock_testkit::TestDatabase;
use sqlx::MySql;
use sqlx::mysql::MySqlPoolOptions;

use crate::bench::{GROUP, partition, sealed};
use leastlock_partition_worker::Progress;

const BOUND: &str = "SELECT CAST(@@idle_transaction_timeout AS SIGNED)";

/// One connection, whose own bound is 77 s.
async fn alone(database: &TestDatabase<MySql>) -> Progress<MySql> {
    MIGRATIONS.run(&database.pool).await.expect("the migrations apply");
    let pool = MySqlPoolOptions::new().max_connections(1).connect(&database.url).await.expect("a connection");
    sqlx::query("SET idle_transaction_timeout = 77").execute(&pool).await.expect("a setting");
    let timeouts = Timeouts { idle: Duration::from_millis(2_500), ..Timeouts::default() };
    Progress::new(pool, GROUP, "owner").with_timeouts(timeouts)
}

async fn bound(progress: &Progress<MySql>) -> i64 {
    sqlx::query_scalar(BOUND).fetch_one(progress.pool()).await.expect("an answer")
}

pub(crate) async fn a_handlers_transaction_leaves_its_connection_as_it_was(database: TestDatabase<MySql>) {
    let progress = alone(&database).await;
    let epoch = sealed(&progress, 10).await.epoch;
    assert_eq!(bound(&progress).await, 77);
    let entered = async |offset| {
        let mut tx = progress.begin().await.expect("a transaction");
        let inside: i64 = sqlx::query_scalar(BOUND).fetch_one(&mut **tx).await.expect("an answer");
        assert_eq!(inside, 3, "in whole seconds, rounded up");
        let entry = progress.enter(&mut tx, &partition(), epoch, offset).await.expect("the fence answers");
        assert_eq!(entry, Entry::Entered);
        tx
    };
    progress.commit(entered(10).await).await.expect("a commit");
    assert_eq!(bound(&progress).await, 77, "committed");
    let next = progress.commit_and_begin(entered(20).await).await.expect("a commit").expect("the next transaction");
    drop(next);
    assert_eq!(bound(&progress).await, 77, "begun and not needed");
    entered(11).await.roll_back().await.expect("a rollback");
    assert_eq!(bound(&progress).await, 77, "rolled back");
    drop(entered(11).await);
    assert_eq!(bound(&progress).await, 77, "dropped");
    let mut ended = entered(11).await;
    sqlx::query("ROLLBACK").execute(&mut **ended).await.expect("a rollback behind sqlx's back");
    assert!(progress.commit(ended).await.is_err(), "there is nothing to commit");
    assert_eq!(bound(&progress).await, 77, "failed");
    let mut ended = entered(11).await;
    sqlx::query("ROLLBACK").execute(&mut **ended).await.expect("a rollback behind sqlx's back");
    assert!(progress.commit_and_begin(ended).await.is_err(), "there is nothing to commit");
    assert_eq!(bound(&progress).await, 77, "failed, and nothing begun");
    let next = progress.commit_and_begin(entered(21).await).await.expect("a commit").expect("the next transaction");
    drop(tokio::time::timeout(Duration::ZERO, progress.commit_and_begin(next)).await);
    assert_eq!(bound(&progress).await, 77, "committed half-way");
    let beginning = tokio::time::timeout(Duration::ZERO, progress.begin()).await;
    drop(beginning);
    assert_eq!(bound(&progress).await, 77, "given up half-way");
    progress.commit(entered(11).await).await.expect("the record is open");
}

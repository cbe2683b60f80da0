//! A handler that ignores the error of one of its statements (PostgreSQL: on SQLite such a transaction goes on).

use leastlock_core::Dialect;
use leastlock_partition_worker::progress::Entry;
use leastlock_testkit::TestDatabase;
use sqlx::{Postgres, Transaction};

use crate::bench::{effect, entry, owner, partition, prepared, sealed};

/// Whether the commit is told to have succeeded although nothing is there.
async fn is_lost<F>(database: TestDatabase<Postgres>, commit: impl FnOnce(Transaction<'static, Postgres>) -> F) -> bool
where
    F: Future<Output = Result<(), sqlx::Error>>,
{
    let database = prepared(database).await;
    database.execute("CREATE TABLE taken (id BIGINT PRIMARY KEY)").await;
    database.execute("INSERT INTO taken (id) VALUES (1)").await;
    let progress = owner(&database, "owner");
    let epoch = sealed(&progress, 10).await.epoch;
    let mut tx = database.pool.begin_with(Postgres::BEGIN_WRITE).await.expect("a transaction");
    assert_eq!(progress.enter(&mut tx, &partition(), epoch, 10).await.expect("an answer"), Entry::Entered);
    effect::<Postgres>(&mut tx, 10, "ignores").await;
    assert!(sqlx::query("INSERT INTO taken (id) VALUES (1)").execute(&mut *tx).await.is_err(), "it is taken");
    let committed = commit(tx).await.is_ok();
    assert_eq!(database.int("SELECT count(*) FROM effect").await, 0);
    assert_eq!(entry(&progress, epoch, 10).await, Entry::Entered, "the record is open");
    committed
}

pub(crate) async fn an_ignored_error_loses_no_record(database: TestDatabase<Postgres>) {
    assert!(!is_lost(database, leastlock_core::commit).await);
}

pub(crate) async fn double_a_plain_commit_loses_the_record(database: TestDatabase<Postgres>) {
    assert!(is_lost(database, Transaction::commit).await);
}

//! A handler that ignores the error of one of its statements, where that ends or aborts its transaction: any on PostgreSQL, a
//! deadlock on MariaDB. (On SQLite such a transaction goes on.)

use leastlock_core::{Engine, Statement};
use leastlock_partition_worker::progress::Entry;
use leastlock_partition_worker::{OwnTransaction, Progress};
use leastlock_testkit::TestDatabase;
use sqlx::Transaction;

use crate::bench::{Tested, effect, entry, owner, partition, prepared, sealed};

/// Whether the commit is told to have succeeded although nothing is there.
async fn is_lost<DB: Tested>(
    database: TestDatabase<DB>,
    commit: impl AsyncFnOnce(&Progress<DB>, OwnTransaction<DB>) -> bool,
) -> bool {
    let database = prepared(database).await;
    database.execute("CREATE TABLE taken (id BIGINT PRIMARY KEY, times BIGINT)").await;
    database.execute("INSERT INTO taken (id, times) VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)").await;
    let progress = owner(&database, "owner");
    let epoch = sealed(&progress, 10).await.epoch;
    let mut own = progress.begin().await.expect("a transaction");
    assert_eq!(progress.enter(&mut own, &partition(), epoch, 10).await.expect("an answer"), Entry::Entered);
    effect::<DB>(&mut own, 10, "ignores").await;
    fails(&database, &mut own).await;
    let committed = commit(&progress, own).await;
    assert_eq!(database.int("SELECT count(*) FROM effect").await, 0);
    assert_eq!(entry(&progress, epoch, 10).await, Entry::Entered, "the record is open");
    committed
}

/// A statement that fails, and takes the transaction along.
async fn fails<DB: Tested>(database: &TestDatabase<DB>, tx: &mut Transaction<'_, DB>) {
    if DB::ENGINE == Engine::MySql {
        return deadlocks(database, tx).await;
    }
    let insert = Statement::new("INSERT INTO taken (id) VALUES (1)");
    assert!(insert.execute::<DB>(tx).await.is_err(), "it is taken");
}

/// The server ends the one of the two that has changed less.
async fn deadlocks<DB: Tested>(database: &TestDatabase<DB>, tx: &mut Transaction<'_, DB>) {
    let run = async |tx: &mut DB::Connection, sql| Statement::new(sql).execute::<DB>(tx).await;
    run(tx, "UPDATE taken SET times = times + 1 WHERE id = 1").await.expect("a free row");
    let mut other = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    run(&mut other, "UPDATE taken SET times = times + 1 WHERE id > 1").await.expect("free rows");
    for offset in 0..20 {
        effect::<DB>(&mut other, offset, "other").await;
    }
    let other = tokio::spawn(async move {
        let waited = Statement::new("UPDATE taken SET times = times + 1 WHERE id = 1").execute::<DB>(&mut other).await;
        waited.expect("the other one is ended");
        other.rollback().await.expect("a rollback");
    });
    let met = run(tx, "UPDATE taken SET times = times + 1 WHERE id = 2").await;
    assert!(met.is_err(), "a deadlock");
    other.await.expect("no panic");
}

/// Commits what the handler holds as sqlx does it.
async fn plain_commit<DB: Tested>(_: &Progress<DB>, mut own: OwnTransaction<DB>) -> bool {
    let commit = Statement::new("COMMIT").into_query::<DB>().expect("a query");
    DB::run_query(&mut own, commit).await.is_ok()
}

pub(crate) async fn an_ignored_error_loses_no_record<DB: Tested>(database: TestDatabase<DB>) {
    assert!(!is_lost(database, async |progress, own| progress.commit(own).await.is_ok()).await);
}

pub(crate) async fn an_ignored_error_loses_no_record_where_the_next_begins<DB: Tested>(database: TestDatabase<DB>) {
    assert!(!is_lost(database, async |progress, own| progress.commit_and_begin(own).await.is_ok()).await);
}

pub(crate) async fn double_a_plain_commit_loses_the_record<DB: Tested>(database: TestDatabase<DB>) {
    assert!(is_lost(database, plain_commit).await);
}

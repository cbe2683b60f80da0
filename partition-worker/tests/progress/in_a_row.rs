//! Handlers' transactions that begin with the commit of the one before.

use std::time::Duration;

use leastlock_core::{Engine, Statement};
use leastlock_partition_worker::progress::Entry;
use leastlock_partition_worker::{Epoch, OwnTransaction, Progress};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::sql;
use sqlx::pool::PoolOptions;

use crate::bench::{GROUP, Tested, effect, entry, owner, partition, prepared, sealed};

/// How a transaction ends, and what comes after it.
enum Ends {
    /// As the worker's do.
    Really,
    /// The next handler goes on in it: one `COMMIT` for both.
    Later,
    /// What begins next is nobody's.
    Unowned,
}

impl Ends {
    async fn commit<DB: Tested>(
        &self,
        progress: &Progress<DB>,
        tx: OwnTransaction<DB>,
    ) -> Result<Option<OwnTransaction<DB>>, sqlx::Error> {
        match self {
            Self::Really => progress.commit_and_begin(tx).await,
            Self::Later => Ok(Some(tx)),
            Self::Unowned => {
                progress.commit(tx).await?;
                let mut connection = progress.pool().acquire().await?;
                Statement::new(sql::<DB>("BEGIN", "START TRANSACTION")).execute::<DB>(&mut connection).await?;
                Ok(None)
            }
        }
    }
}

async fn entered<DB: Tested>(
    progress: &Progress<DB>,
    epoch: Epoch,
    offset: i64,
    kept: Option<OwnTransaction<DB>>,
) -> OwnTransaction<DB> {
    let mut tx = match kept {
        Some(tx) => tx,
        None => progress.begin().await.expect("a transaction"),
    };
    let entry = progress.enter(&mut tx, &partition(), epoch, offset).await.expect("the fence answers");
    assert_eq!(entry, Entry::Entered, "{offset}");
    effect::<DB>(&mut tx, offset, "handler").await;
    tx
}

/// How many of two handlers' effects are there, when the first has committed; and when the second has rolled back.
async fn effects<DB: Tested>(database: TestDatabase<DB>, ends: Ends) -> [i64; 2] {
    let database = prepared(database).await;
    let progress = owner(&database, "owner");
    let epoch = sealed(&progress, 10).await.epoch;
    let first = entered(&progress, epoch, 10, None).await;
    let next = ends.commit(&progress, first).await.expect("a commit");
    let committed = database.int("SELECT count(*) FROM effect").await;
    if matches!(ends, Ends::Really) {
        assert_eq!(next.is_none(), DB::ENGINE == Engine::Sqlite, "there an open transaction keeps others from writing");
    }
    entered(&progress, epoch, 11, next).await.roll_back().await.expect("a rollback");
    [committed, database.int("SELECT count(*) FROM effect").await]
}

pub(crate) async fn the_next_transaction_has_no_part_in_the_one_that_was_committed<DB: Tested>(
    database: TestDatabase<DB>,
) {
    assert_eq!(effects(database, Ends::Really).await, [1, 1]);
}

pub(crate) async fn double_one_transaction_for_both_takes_the_first_back<DB: Tested>(database: TestDatabase<DB>) {
    assert_eq!(effects(database, Ends::Later).await, [0, 0]);
}

pub(crate) async fn each_transaction_in_a_row_is_fenced_by_itself<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let progress = owner(&database, "first");
    let epoch = sealed(&progress, 10).await.epoch;
    let mut kept = None;
    for offset in 10..20 {
        let tx = entered(&progress, epoch, offset, kept).await;
        kept = progress.commit_and_begin(tx).await.expect("a commit");
    }
    let newer = owner(&database, "second");
    let next = sealed(&newer, 10).await;
    assert_eq!(next.finished.offsets().count(), 10, "what was kept stood in nobody's way: {next:?}");
    let mut tx = match kept {
        Some(tx) => tx,
        None => progress.begin().await.expect("a transaction"),
    };
    let late = progress.enter(&mut tx, &partition(), epoch, 20).await.expect("the fence answers");
    assert_eq!(late, Entry::Fenced);
    drop(tx);
    assert_eq!(entry(&newer, next.epoch, 20).await, Entry::Entered);
}

/// Whether what the next user of the one connection writes, without a transaction, is there; at whatever moment the commit's future
/// is dropped.
async fn a_later_user_is_served<DB: Tested>(database: TestDatabase<DB>, ends: Ends) -> bool {
    let database = prepared(database).await;
    let pool = PoolOptions::<DB>::new().max_connections(1).connect(&database.url).await.expect("a connection");
    let progress = Progress::new(pool.clone(), GROUP, "owner");
    let epoch = sealed(&progress, 0).await.epoch;
    for moment in 0..20_u32 {
        let tx = entered(&progress, epoch, i64::from(moment), None).await;
        let time = Duration::from_micros(50) * moment * moment;
        drop(tokio::time::timeout(time, ends.commit(&progress, tx)).await);
        let mut connection = pool.acquire().await.expect("the connection comes back");
        effect::<DB>(&mut connection, 1_000 + i64::from(moment), "later").await;
        drop(connection);
        let later = database.int("SELECT count(*) FROM effect WHERE owner = 'later'").await;
        if later != i64::from(moment) + 1 {
            return false;
        }
    }
    true
}

pub(crate) async fn a_commit_that_is_dropped_leaves_no_transaction_open<DB: Tested>(database: TestDatabase<DB>) {
    assert!(a_later_user_is_served(database, Ends::Really).await);
}

pub(crate) async fn double_a_begin_that_nobody_owns_swallows_what_a_later_user_writes<DB: Tested>(
    database: TestDatabase<DB>,
) {
    assert!(!a_later_user_is_served(database, Ends::Unowned).await);
}

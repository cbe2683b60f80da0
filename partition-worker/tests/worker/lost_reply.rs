//! A commit whose reply is lost (through a proxy: SQLite's commit is a call, not a message).

use std::time::Duration;

use leastlock_core::Statement;
use leastlock_partition_worker::{Failure, Handler, OnFailure, Record, WorkerSql};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::statement::{is_commit, once};
use leastlock_testkit::proxy::{FaultProxy, Then};
use sqlx::Transaction;

use crate::no_answer::{Seen, proxied};
use crate::rig::{LIMIT, Rig, Told, apply, start};

/// The fault strikes the commit of record 3.
async fn every_record_counts_once<DB: Seen>(database: TestDatabase<DB>, strike: impl FnOnce(&FaultProxy)) {
    let rig = Rig::new(database, 1).await;
    let (proxy, builder) = proxied(&rig, Duration::from_millis(500)).await;
    // No fold, so that the commit is a handler's.
    let worker = start(builder.fold_every(Duration::from_hours(1)), Told::plain("worker"));
    rig.produce(&["85123A"], 1..=2).await;
    rig.effects(2).await;
    strike(&proxy);
    rig.produce(&["85123A"], 3..=3).await;
    proxy.fired(1, LIMIT).await;
    rig.produce(&["85123A"], 4..=6).await;
    rig.effects(6).await;
    let summary = worker.stop().await;
    assert_eq!((summary.processed(), summary.already_done()), (6, 0), "{summary:?}");
    rig.assert_exactly_once(&["85123A"], 6).await;
}

/// The transaction commits, and nobody is told.
pub(crate) async fn a_commit_whose_reply_is_lost_counts_once<DB: Seen>(database: TestDatabase<DB>) {
    every_record_counts_once(database, |proxy| {
        proxy.swallow_reply_to(once(is_commit()), Then::Cut);
    })
    .await;
}

/// The same, and the connection seems to live.
pub(crate) async fn a_commit_whose_reply_never_comes_counts_once<DB: Seen>(database: TestDatabase<DB>) {
    every_record_counts_once(database, |proxy| {
        proxy.swallow_reply_to(once(is_commit()), Then::Hang);
    })
    .await;
}

/// The transaction stays open, until the server ends it; the next attempts wait for it.
pub(crate) async fn a_commit_that_never_arrives_is_done_again<DB: Seen>(database: TestDatabase<DB>) {
    every_record_counts_once(database, |proxy| {
        proxy.lose_request(once(is_commit()), Then::Hang);
    })
    .await;
}

/// Holds its transaction at record 3 beyond the idle time-out, without ever being idle for so long, so that a connection that is lost then
/// counts as the handler's failure.
struct TakesLong;

impl<DB: WorkerSql> Handler<DB> for TakesLong {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        apply::<DB>(tx, record, "takes long").await?;
        if record.value() == Some(b"3") {
            for _ in 0..24 {
                Statement::new("SELECT 1").fetch_optional::<DB>(&mut *tx).await?;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }
}

/// The last attempt fails by a commit that took effect. Nothing is given up, and the key goes on.
async fn nothing_is_given_up<DB: Seen>(database: TestDatabase<DB>, policy: impl Fn(&str) -> OnFailure) {
    let rig = Rig::new(database, 1).await;
    let copies = rig.broker.topic(1).await;
    // Its connections are given up for idle after 2 s.
    let (proxy, builder) = proxied(&rig, Duration::from_millis(500)).await;
    let builder = builder.fold_every(Duration::from_hours(1)).max_attempts(1).on_failure(policy(&copies));
    let worker = start(builder, TakesLong);
    rig.produce(&["85123A"], 1..=2).await;
    rig.effects(2).await;
    proxy.swallow_reply_to(once(is_commit()), Then::Cut);
    rig.produce(&["85123A"], 3..=3).await;
    proxy.fired(1, LIMIT).await;
    rig.produce(&["85123A"], 4..=6).await;
    rig.effects(6).await;
    let summary = worker.stop().await;
    let of = summary.partitions.values().next().expect("one partition");
    assert_eq!((of.processed, of.failures, of.already_done), (6, 1, 0), "{summary:?}");
    assert_eq!((of.dead_lettered, of.parked, of.skipped), (0, 0, 0), "{summary:?}");
    assert!(rig.broker.read_all(&copies, LIMIT).await.is_empty(), "no copy was made");
    rig.assert_exactly_once(&["85123A"], 6).await;
}

pub(crate) async fn what_took_effect_in_its_last_attempt_is_no_dead_letter<DB: Seen>(database: TestDatabase<DB>) {
    nothing_is_given_up(database, |copies| OnFailure::dead_letter(copies)).await;
}

pub(crate) async fn what_took_effect_in_its_last_attempt_is_not_parked<DB: Seen>(database: TestDatabase<DB>) {
    nothing_is_given_up(database, |copies| OnFailure::park_key(copies)).await;
}

pub(crate) async fn what_took_effect_in_its_last_attempt_is_not_skipped<DB: Seen>(database: TestDatabase<DB>) {
    nothing_is_given_up(database, |_| OnFailure::Skip).await;
}

//! A commit whose reply is lost (PostgreSQL, through a proxy: SQLite's commit is a call, not a message).

use std::time::Duration;

use leastlock_partition_worker::Timeouts;
use leastlock_testkit::proxy::{FaultProxy, Then, postgres};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Postgres;

use crate::rig::{LIMIT, Rig, Told, builder, start, until};

/// The transaction with record 3 commits, and nobody is told; answers how often each record took effect.
pub(crate) async fn a_commit_whose_reply_is_lost_counts_once(database: TestDatabase<Postgres>) {
    let rig = Rig::new(database, 1).await;
    let proxy = FaultProxy::to_postgres(&rig.database.url).await;
    let pool = Postgres::connect(&postgres::through(&proxy, &rig.database.url)).await;
    let (broker, settings) = (rig.broker.bootstrap(), &rig.settings);
    let told = builder(&pool, Timeouts::default(), broker, &rig.group, &rig.topic, settings);
    // No fold, so that the commit is a handler's.
    let worker = start(told.fold_every(Duration::from_hours(1)), Told::plain("worker"));
    rig.produce(&["85123A"], 1..=2).await;
    rig.effects(2).await;
    proxy.swallow_reply_to(postgres::once(postgres::is_commit()), Then::Cut);
    rig.produce(&["85123A"], 3..=3).await;
    proxy.fired(1, LIMIT).await;
    rig.produce(&["85123A"], 4..=6).await;
    rig.effects(6).await;
    until("shutdown", || {
        worker.shutdown.cancel();
        worker.task.is_finished()
    })
    .await;
    let summary = worker.ended().await.expect("a lost reply stops nothing");
    assert_eq!((summary.processed(), summary.already_done()), (6, 0), "{summary:?}");
    rig.assert_exactly_once(&["85123A"], 6).await;
}

//! A commit whose reply is lost (through a proxy: SQLite's commit is a call, not a message).

use std::time::Duration;

use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::statement::{is_commit, once};
use leastlock_testkit::proxy::{FaultProxy, Then};

use crate::no_answer::{Seen, proxied};
use crate::rig::{LIMIT, Rig, Told, start};

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

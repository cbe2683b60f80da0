//! A database that stops to answer (through a proxy: SQLite answers by itself).

use std::time::Duration;

use leastlock_partition_worker::effect::InDatabase;
use leastlock_partition_worker::{Builder, Timeouts};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::Proxied;
use leastlock_testkit::proxy::statement::{is_commit, once};
use leastlock_testkit::proxy::{FaultProxy, Then};

use crate::rig::{Bus, LIMIT, Rig, Told, builder, start};

/// An engine behind a proxy that reads along.
pub(crate) trait Seen: Bus + Proxied {}
impl<DB: Bus + Proxied> Seen for DB {}

const KEY: [&str; 1] = ["85123A"];

/// A worker whose connections to the database go through a proxy, and which waits for an answer for so long.
pub(crate) async fn proxied<DB: Seen>(rig: &Rig<DB>, request: Duration) -> (FaultProxy, Builder<InDatabase<DB>>) {
    let proxy = DB::proxy(&rig.database.url).await;
    let pool = DB::connect(&DB::through(&proxy, &rig.database.url)).await;
    let timeouts = Timeouts { request, idle: Duration::from_secs(2), ..Timeouts::default() };
    let builder = builder(&pool, timeouts, rig.broker.bootstrap(), &rig.group, &rig.topic, &rig.settings);
    (proxy, builder.drain_timeout(Duration::from_secs(1)))
}

fn raises_next_offset(sql: &str) -> bool {
    sql.contains("-- The first step of a fold")
}

/// Neither the handler that runs nor the last fold ever gets an answer, nor would any request time out in the test's time.
pub(crate) async fn a_shutdown_ends_though_the_database_never_answers<DB: Seen>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    let (proxy, builder) = proxied(&rig, Duration::from_hours(1)).await;
    let worker = start(builder.fold_every(Duration::from_hours(1)), Told::plain("worker"));
    rig.produce(&KEY, 1..=3).await;
    rig.effects(3).await;
    proxy.lose_request(once(|sql| sql.contains("-- The fence")), Then::Hang);
    rig.produce(&KEY, 4..=4).await;
    proxy.fired(1, LIMIT).await;
    proxy.black_hole();
    let summary = worker.stop().await;
    assert_eq!((summary.processed(), summary.drained), (3, false), "{summary:?}");
}

pub(crate) async fn a_shutdown_ends_though_a_fold_is_never_answered<DB: Seen>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    let (proxy, builder) = proxied(&rig, Duration::from_hours(1)).await;
    proxy.lose_request(once(raises_next_offset), Then::Hang);
    let worker = start(builder, Told::plain("worker"));
    rig.produce(&KEY, 1..=1).await;
    proxy.fired(1, LIMIT).await;
    let summary = worker.stop().await;
    assert_eq!((summary.processed(), summary.drained), (1, true), "{summary:?}");
}

/// A fold holds the handlers of its partition back.
pub(crate) async fn a_fold_without_an_answer_holds_up_nothing_for_ever<DB: Seen>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    let (proxy, builder) = proxied(&rig, Duration::from_millis(500)).await;
    proxy.lose_request(once(raises_next_offset), Then::Hang);
    let worker = start(builder, Told::plain("worker"));
    rig.produce(&KEY, 1..=1).await;
    proxy.fired(1, LIMIT).await;
    rig.produce(&KEY, 2..=4).await;
    rig.effects(4).await;
    rig.until("SELECT next_offset FROM leastlock_partition", |next| next == 4, "fold").await;
    assert_eq!(worker.stop().await.processed(), 4);
    rig.assert_exactly_once(&KEY, 4).await;
}

/// The connection is lost while the first owner fixes where the group starts; once before it is fixed, once after.
pub(crate) async fn a_start_that_could_not_be_fixed_is_fixed_by_the_next_seal<DB: Seen>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    let (proxy, builder) = proxied(&rig, Duration::from_secs(30)).await;
    let mut anchors = 0;
    let mut anchoring = false;
    let mut is_commit = is_commit();
    proxy.swallow_reply_to(
        move |sql| {
            if sql.contains("-- Fixes where the first owner") {
                anchors += 1;
                anchoring = anchors > 1;
                // The first is rolled back, as its connection ends.
                return anchors == 1;
            }
            // The second is committed.
            is_commit(sql) && std::mem::take(&mut anchoring)
        },
        Then::Cut,
    );
    rig.produce(&KEY, 1..=3).await;
    let worker = start(builder, Told::plain("worker"));
    rig.effects(3).await;
    proxy.fired(2, LIMIT).await;
    assert_eq!(worker.stop().await.processed(), 3);
    rig.assert_exactly_once(&KEY, 3).await;
}

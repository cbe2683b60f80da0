//! What a task keeps from one record to the next (through a proxy that counts, so not on SQLite, which keeps nothing).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leastlock_partition_worker::Timeouts;
use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::Then;
use sqlx::pool::PoolOptions;

use crate::no_answer::Seen;
use crate::rig::{Rig, Told, builder, start, until};

const RECORDS: usize = 300;

/// How many transactions of handlers a worker has begun one by one, for the records of one key, on a pool of so many connections.
async fn begun<DB: Seen>(database: TestDatabase<DB>, connections: u32) -> usize {
    let rig = Rig::new(database, 1).await;
    rig.produce(&["85123A"], 1..=300).await;
    let proxy = DB::proxy(&rig.database.url).await;
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let is_begin = move |sql: &str| {
        counted.fetch_add(usize::from(sql.contains("-- Begins a transaction of the worker's own")), Ordering::SeqCst);
        false
    };
    proxy.lose_request(is_begin, Then::Hang);
    let pool = PoolOptions::<DB>::new().max_connections(connections).test_before_acquire(false);
    let pool = pool.connect(&DB::through(&proxy, &rig.database.url)).await.expect("a connection");
    let builder = builder(&pool, Timeouts::default(), rig.broker.bootstrap(), &rig.group, &rig.topic, &rig.settings);
    let worker = start(builder.concurrency(1).fold_every(Duration::from_hours(1)), Told::plain("worker"));
    rig.effects(300).await;
    // The last one may still be on its way back.
    until("the worker gives its connections back", || pool.num_idle() == pool.size() as usize).await;
    assert_eq!(worker.stop().await.processed(), RECORDS as u64);
    rig.assert_exactly_once(&["85123A"], 300).await;
    count.load(Ordering::SeqCst)
}

pub(crate) async fn a_busy_task_keeps_its_connection_for_a_while<DB: Seen>(database: TestDatabase<DB>) {
    let begun = begun(database, 4).await;
    // After each hundred it goes back.
    assert!((3..RECORDS / 4).contains(&begun), "{begun} of {RECORDS} were begun alone");
}

pub(crate) async fn no_connection_is_kept_that_others_may_wait_for<DB: Seen>(database: TestDatabase<DB>) {
    let begun = begun(database, 1).await;
    assert!(begun >= RECORDS, "{begun} of {RECORDS} were begun alone, and nobody else could have had the connection");
}

//! What leaves an outbox, through a relay.

use std::time::Duration;

use leastlock_outbox::{LoggedEvent, MIGRATIONS, MemorySink, Outbox, OutboxSql, Relay};
use leastlock_testkit::{TestDatabase, TestEngine, until};
use sqlx::Transaction;
use tokio_util::sync::CancellationToken;

/// How long what must come is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The tables, and an outbox over them.
pub(crate) async fn tables<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) -> (TestDatabase<DB>, Outbox) {
    let database = database.with(&MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.expect("the tables are there");
    (database, outbox)
}

/// A transaction that writes.
pub(crate) async fn begin<DB: TestEngine>(database: &TestDatabase<DB>) -> Transaction<'static, DB> {
    leastlock_core::begin(&database.pool).await.expect("a transaction")
}

/// The first `count` events that leave, in order.
pub(crate) async fn leaving<DB: TestEngine + OutboxSql>(database: &TestDatabase<DB>, count: usize) -> Vec<LoggedEvent> {
    let (sink, shutdown) = (MemorySink::default(), CancellationToken::new());
    let relay = Relay::builder(&database.pool, sink.clone()).build().expect("valid settings");
    let running = tokio::spawn(relay.run(shutdown.clone()));
    let left = tokio::time::timeout(PATIENCE, sink.wait_for(count)).await.expect("all of them leave");
    shutdown.cancel();
    running.await.expect("no panic").expect("the relay ends well");
    left
}

pub(crate) fn values(events: &[LoggedEvent]) -> Vec<&str> {
    let text = |event| str::from_utf8(Option::as_deref(event).expect("a value")).expect("text");
    events.iter().map(|event| text(&event.value)).collect()
}

/// Waits until a transaction of this database waits for a lock, or `has_ended`.
pub(crate) async fn until_one_waits<DB: TestEngine>(database: &TestDatabase<DB>, has_ended: impl Fn() -> bool) {
    until_waiting(database, 1, has_ended).await;
}

/// Waits until so many do, or `has_ended`.
pub(crate) async fn until_waiting<DB: TestEngine>(
    database: &TestDatabase<DB>,
    count: i64,
    has_ended: impl Fn() -> bool,
) {
    let waited = async || has_ended() || database.waiting_for_locks().await >= count;
    until("they wait, or have ended", PATIENCE, waited).await;
}

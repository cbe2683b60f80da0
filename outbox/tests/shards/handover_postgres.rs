//! A hand-over while a table cannot be read, on PostgreSQL.

use leastlock_outbox::{Asked, Filter, Parked, Retry};
use leastlock_testkit::TestDatabase;
use sqlx::Postgres;

use crate::handover::shares;
use crate::support::{BAD, Recorder, Running, commit, tables, until};

/// What somebody asked for is looked up and sent between two hand-overs, and must not hold them up for ever.
pub(crate) async fn shards_are_handed_over_though_parked_events_cannot_be_read(database: TestDatabase<Postgres>) {
    let (database, outbox) = tables(database).await;
    let (pool, sink, parked) = (&database.pool, Recorder::new(), Parked::of(&database.pool));
    let first = Running::start(pool, &sink);
    commit(&outbox, pool, "k", BAD).await;
    until("the event is parked", async || parked.count(&Filter::all()).await.unwrap().events == 1).await;
    // The queues can be read, and what is in them cannot.
    let mut lock = pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE leastlock_outbox_parked IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let retry = Retry::Key { topic: "moves", key: b"k" };
    assert_eq!(parked.retry(&retry, "ann", "mended").await.unwrap(), Asked::Done { queues: 1 });
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    until("the relay waits for the table", async || database.int(waiting).await > 0).await;
    let second = Running::start(pool, &sink);
    until("each has its half", async || shares(pool).await == [8, 8]).await;
    lock.rollback().await.unwrap();
    for relay in [first, second] {
        relay.end().await;
    }
}

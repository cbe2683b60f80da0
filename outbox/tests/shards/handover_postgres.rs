//! Claims and hand-overs while the tables of parked events are slow or cannot be read, on PostgreSQL.

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
    until("the relay waits for the table", async || database.waiting_for_locks().await > 0).await;
    let second = Running::start(pool, &sink);
    until("each has its half", async || shares(pool).await == [8, 8]).await;
    lock.rollback().await.unwrap();
    for relay in [first, second] {
        relay.end().await;
    }
}

/// A claim gets a third of the lease at first. One that can never be done in that time must not be begun anew for ever.
pub(crate) async fn shards_are_claimed_though_reading_their_blocked_keys_takes_longer_than_a_lease(
    database: TestDatabase<Postgres>,
) {
    let (database, outbox) = tables(database).await;
    // 16 shards take 2 s.
    database.execute("ALTER TABLE leastlock_outbox_parked_queue RENAME TO slow_queue").await;
    database
        .execute(
            "CREATE FUNCTION slowly() RETURNS SETOF slow_queue LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM pg_sleep(0.125); RETURN QUERY SELECT * FROM slow_queue; END $$",
        )
        .await;
    database.execute("CREATE VIEW leastlock_outbox_parked_queue AS SELECT * FROM slowly()").await;
    let sink = Recorder::new();
    let relay = Running::start(&database.pool, &sink);
    commit(&outbox, &database.pool, "k", "v").await;
    sink.comes_to(1).await;
    until("the relay holds all", async || shares(&database.pool).await == [16]).await;
    relay.end().await;
}

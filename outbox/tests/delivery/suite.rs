//! The guarantees of the outbox.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leastlock_core::{Engine, Statement};
use leastlock_outbox::{Batch, Error, Event, LoggedEvent, OnRefusal, OutboxSql, Refusal, Relay, SendError, Sink, Wake};
use leastlock_testkit::{TestDatabase, TestEngine, until};
use sqlx::Connection;
use tokio_util::sync::CancellationToken;

use crate::doubles;
use crate::readers::{Appender, Inside, PATIENCE, Reading, append, commit, tables};

pub(crate) use crate::answers::{
    b5_lease_is_kept_while_publishing_is_slow, b6_no_lock_is_held_while_the_sink_is_waited_for,
    b9_producer_dropped_before_its_reports_marks_nothing_sent, b15_what_is_behind_a_gap_is_not_noted,
    b17_what_has_no_answer_by_the_deadline_is_not_marked_done,
};
pub(crate) use crate::killed::b18_killed_relay_is_followed_and_repeats_no_more_than_was_in_flight;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use crate::lost_answers::*;
#[cfg(feature = "postgres")]
pub(crate) use crate::stopped::b18_relay_stopped_while_it_holds_rows_is_followed_within_its_lease_and_a_second;
pub(crate) use crate::together::*;
#[cfg(feature = "mysql")]
pub(crate) use crate::{mysql_only::*, mysql_random::b1_b2_b3_b14_hold_where_published_rows_are_deleted};
#[cfg(feature = "postgres")]
pub(crate) use crate::{random::b1_b2_b3_b14_hold_under_random_transactions, visibility::*};

pub(crate) async fn b13_rolled_back_events_never_leave<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let left = what_leaves_of_rolled_back_work(database, Inside).await;
    assert_eq!(left, ["kept", "marker"]);

    let left = what_leaves_of_rolled_back_work(TestDatabase::<DB>::create().await, doubles::Beside).await;
    for value in ["rolled back", "in a lost savepoint"] {
        assert!(left.contains(&value.to_owned()), "the double's event must be seen to leave: {left:?}");
    }
}

/// A transaction that is rolled back, and one with a savepoint that is; answers everything that leaves.
async fn what_leaves_of_rolled_back_work<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    appender: impl Appender,
) -> Vec<String> {
    let (database, outbox) = tables(database).await;
    appender.before(&outbox, &database.pool, "rolled back").await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    appender.inside(&outbox, &mut tx, "rolled back").await;
    tx.rollback().await.unwrap();

    appender.before(&outbox, &database.pool, "in a lost savepoint").await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    append(&outbox, &mut tx, "k", "kept").await;
    let mut savepoint = tx.begin().await.unwrap();
    appender.inside(&outbox, &mut savepoint, "in a lost savepoint").await;
    savepoint.rollback().await.unwrap();
    tx.commit().await.unwrap();
    commit(&outbox, &database.pool, "k", "marker").await;

    let reading = Reading::product(&database.pool);
    assert!(reading.delivers("marker", PATIENCE).await);
    reading.values()
}

pub(crate) async fn pages_smaller_than_the_backlog_lose_and_double_nothing<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    // Pages of one event are the hardest: each is a window of its own.
    for page in [1, 7, 200] {
        let mut expected = Vec::new();
        for number in 0..60 {
            let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
            for key in ["a", "b", "c"] {
                let value = format!("{page} {key} {number}");
                append(&outbox, &mut tx, key, &value).await;
                expected.push(value);
            }
            tx.commit().await.unwrap();
        }
        // The relay before it may have noted its last page or not.
        let of_page = |values: &[String]| -> Vec<String> {
            values.iter().filter(|value| value.starts_with(&format!("{page} "))).cloned().collect()
        };
        let reading = Reading::relay(&database.pool, page);
        let comes = reading.comes_to(PATIENCE, |values| of_page(values).len() >= expected.len()).await;
        assert!(comes, "page {page}");
        let marker = format!("marker {page}");
        commit(&outbox, &database.pool, "d", &marker).await;
        assert!(reading.delivers(&marker, PATIENCE).await);
        let values = of_page(&reading.crash().await);
        for key in ["a", "b", "c"] {
            let of_key = |values: &[String]| -> Vec<String> {
                values.iter().filter(|value| value.contains(key)).cloned().collect()
            };
            assert_eq!(of_key(&values), of_key(&expected), "page {page}");
        }
        database.execute("UPDATE leastlock_outbox_shard SET lease_until = NULL, epoch = epoch + 1").await;
    }
}

pub(crate) async fn crashed_relay_is_followed_by_another_once_its_lease_is_over<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    commit(&outbox, &database.pool, "k", "1").await;
    let first = Reading::product(&database.pool);
    assert!(first.delivers("1", PATIENCE).await);
    until("the first event is noted", PATIENCE, async || moved(&database).await > 0).await;
    let second = Reading::product(&database.pool);
    commit(&outbox, &database.pool, "k", "2").await;
    // The second may have been given the shard; then the first has noted what it published.
    let by_first = tokio::select! {
        delivered = first.delivers("2", PATIENCE) => delivered,
        delivered = second.delivers("2", PATIENCE) => !delivered,
    };
    let (crashing, next) = if by_first { (first, second) } else { (second, first) };
    assert!(!next.values().contains(&"2".to_owned()), "a shard has one reader");
    crashing.crash().await;
    commit(&outbox, &database.pool, "k", "3").await;
    assert!(next.delivers("3", PATIENCE).await);
    let published = next.values();
    let repeated = published.iter().filter(|value| *value == "1").count();
    assert_eq!(repeated, usize::from(!by_first), "what was noted as published is not repeated: {published:?}");
}

pub(crate) async fn fenced_relay_moves_no_cursor<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let (database, outbox) = tables(database).await;
    commit(&outbox, &database.pool, "k", "1").await;
    // Another relay takes the shards while this one's sink is at work.
    let stolen = TakenOver { pool: database.pool.clone(), published: Arc::default() };
    let published = stolen.published.clone();
    let relay = Relay::builder(&database.pool, stolen).build().unwrap();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(relay.run(shutdown.clone()));
    let patience = tokio::time::timeout(PATIENCE, async {
        while published.lock().unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    patience.await.expect("the event reaches the sink");
    shutdown.cancel();
    let summary = running.await.unwrap().unwrap();
    // It published, but what it published is not noted as done: the new owner publishes it again.
    assert_eq!(summary.published, 0);
    assert_eq!(moved(&database).await, 0);
}

/// Of how many shards it is noted that the only event was published.
async fn moved<DB: TestEngine + OutboxSql>(database: &TestDatabase<DB>) -> i64 {
    let moved = match DB::ENGINE {
        Engine::MySql => "SELECT 1 - count(*) FROM leastlock_outbox",
        Engine::Postgres => "SELECT count(*) FROM leastlock_outbox_shard WHERE done::text <> '1:1:' OR last_id <> 0",
        _ => "SELECT count(*) FROM leastlock_outbox_shard WHERE last_id <> 0",
    };
    database.int(moved).await
}

/// A sink in whose `send` another relay takes every shard over.
struct TakenOver<DB: TestEngine> {
    pool: sqlx::Pool<DB>,
    published: Arc<Mutex<Vec<LoggedEvent>>>,
}

impl<DB: TestEngine> Sink for TakenOver<DB> {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, batch: Batch) {
        let mut connection = self.pool.acquire().await.unwrap();
        let take = "UPDATE leastlock_outbox_shard SET owner = 'another', epoch = epoch + 1";
        Statement::new(take).execute::<DB>(&mut connection).await.unwrap();
        self.published.lock().unwrap().extend_from_slice(batch.events());
        batch.published();
    }

    fn abandon(&self) {}
}

/// A sink that refuses the value `bad` for good.
#[derive(Clone, Default)]
pub(crate) struct Refusing(pub(crate) Arc<Mutex<Vec<String>>>);

impl Sink for Refusing {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, mut batch: Batch) {
        let mut refused = false;
        while let Some((event, receipt)) = batch.next() {
            let value = String::from_utf8(event.value.clone().unwrap()).unwrap();
            refused |= value == "bad";
            if refused {
                receipt.failed(SendError::Permanent { reason: "it is bad".into() });
            } else {
                self.0.lock().unwrap().push(value);
                receipt.published();
            }
        }
    }

    fn abandon(&self) {}
}

pub(crate) async fn refused_event_stops_the_relay_before_it<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let (database, outbox) = tables(database).await;
    for value in ["1", "2", "bad", "4"] {
        commit(&outbox, &database.pool, "k", value).await;
    }
    let sink = Refusing::default();
    let run = || {
        Relay::builder(&database.pool, sink.clone())
            .on_refusal(OnRefusal::Halt)
            .build()
            .unwrap()
            .run(CancellationToken::new())
    };
    assert!(matches!(run().await, Err(Error::Refused { .. })));
    // Started again it goes on at the refused event: the prefix was noted, and the shards were given back.
    assert!(matches!(run().await, Err(Error::Refused { .. })));
    assert_eq!(*sink.0.lock().unwrap(), ["1", "2"]);
}

pub(crate) async fn negative_partition_is_refused_before_any_sql<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    let negative = outbox.append(&mut tx, Event::new("moves", "k").bytes("v").partition(-7)).await;
    assert!(matches!(negative, Err(Error::Partition { partition: -7 })), "{negative:?}");
    outbox.append(&mut tx, Event::new("moves", "k").bytes("first").partition(0)).await.unwrap();
    tx.commit().await.unwrap();
    let reading = Reading::product(&database.pool);
    assert!(reading.delivers("first", PATIENCE).await);
    assert_eq!(reading.values(), ["first"]);
}

/// A sink that never knows, and wakes the relay whenever it is asked.
struct Lost {
    attempts: Arc<AtomicU32>,
    wake: Wake,
}

impl Sink for Lost {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, batch: Batch) {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        self.wake.notify();
        batch.unknown("no report");
    }

    fn abandon(&self) {}
}

pub(crate) async fn sink_that_never_knows_is_asked_with_growing_pauses<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    commit(&outbox, &database.pool, "k", "1").await;
    let attempts = Arc::new(AtomicU32::new(0));
    let sink = Lost { attempts: attempts.clone(), wake: outbox.wake() };
    let relay = Relay::builder(&database.pool, sink).woken_by(outbox.wake()).build().unwrap();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(relay.run(shutdown.clone()));
    // Without pauses it is asked some hundred times a second, with them some twenty times in all. A slow machine only asks less.
    tokio::time::sleep(Duration::from_secs(2)).await;
    shutdown.cancel();
    running.await.unwrap().unwrap();
    let attempts = attempts.load(Ordering::SeqCst);
    assert!((2..80).contains(&attempts), "{attempts}");
}

pub(crate) async fn event_over_the_limit_is_refused_before_any_sql<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    let outbox = outbox.max_event_bytes(10);
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    let large = outbox.append(&mut tx, Event::new("moves", "k").bytes([0; 10])).await;
    assert!(matches!(large, Err(Error::EventTooLarge { bytes: 11, limit: 10 })), "{large:?}");
    let nowhere = outbox.append(&mut tx, Event::new("stock moves", "k")).await;
    assert!(matches!(nowhere, Err(Error::Topic { .. })), "{nowhere:?}");
    append(&outbox, &mut tx, "k", "fits").await;
    tx.commit().await.unwrap();
}

//! Rounds to a sink that refuses whatever is in flight together with an event that it cannot take.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use leastlock_testkit::TestDatabase;
use sqlx::Sqlite;

use super::*;
use crate::event::Event;
use crate::outbox::Outbox;
use crate::parked::{Cause, Filter, Parked, Retry};
use crate::relay::cursor::{Note, ReadFrom};
use crate::relay::log::SqlLog;
use crate::relay::pipeline;
use crate::sink::{Receipt, Refusal};
use crate::sql::found::ReadLimit;

/// How long a batch is filled.
const LINGER: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Seen {
    in_flight: Mutex<Vec<(String, Receipt)>>,
    /// The most that were in flight at once.
    most: AtomicUsize,
    refused: Mutex<BTreeSet<String>>,
    /// Answers nothing.
    is_silent: bool,
}

/// Packs what is in flight together.
#[derive(Default, Clone)]
struct Packing(Arc<Seen>);

impl Sink for Packing {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, mut batch: Batch) {
        {
            let mut in_flight = lock(&self.0.in_flight);
            while let Some((event, receipt)) = batch.next() {
                in_flight.push((String::from_utf8(event.value.clone().unwrap()).unwrap(), receipt));
            }
            self.0.most.fetch_max(in_flight.len(), Ordering::SeqCst);
        }
        let seen = self.0.clone();
        tokio::spawn(async move {
            tokio::time::sleep(LINGER).await;
            if seen.is_silent {
                return;
            }
            let pack = std::mem::take(&mut *lock(&seen.in_flight));
            let is_bad = pack.iter().any(|(value, _)| value == "bad");
            for (value, receipt) in pack {
                if is_bad {
                    lock(&seen.refused).insert(value);
                    receipt.failed(SendError::Permanent { reason: "it is bad".into() });
                } else {
                    receipt.published();
                }
            }
        });
    }

    fn abandon(&self) {}
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Scene = (TestDatabase<Sqlite>, Relay<SqlLog<Sqlite>, Packing>, Vec<Cursor>);

/// Three keys, each with a parked event that an operator has asked for.
async fn asked_for(sink: &Packing) -> Scene {
    let database = TestDatabase::<Sqlite>::create().await.with(&crate::MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.unwrap();
    let mut tx = leastlock_core::begin(&database.pool).await.unwrap();
    for value in ["good", "bad", "better"] {
        outbox.append(&mut tx, Event::new("t", value).bytes(value)).await.unwrap();
    }
    tx.commit().await.unwrap();
    let relay = Relay::builder(&database.pool, sink.clone()).build().unwrap();
    let cursors = relay.log.claim("me", &[0], 1, 600_000).await.unwrap();
    let from = [ReadFrom { cursor: cursors[0].clone(), unnoted: Vec::new() }];
    let page = relay.log.read(&from, ReadLimit { events: 10, bytes: 1 << 20 }).await.unwrap().remove(0);
    let park = |event: &LoggedEvent| pipeline::Parked {
        event: event.clone(),
        cause: Cause::Refused { reason: "it was too large".into() },
        overtaken_by: Vec::new(),
    };
    let parked = page.events.iter().map(park).collect();
    relay.log.note(&[Note { cursor: page.after(3), published: Vec::new(), parked }]).await.unwrap();
    let asked = Parked::of(&database.pool).retry(&Retry::Topic("t"), "ann", "mended").await.unwrap();
    assert_eq!(asked, crate::parked::Asked::Done { queues: 3 });
    (database, relay, cursors)
}

async fn round_of((_, relay, cursors): &Scene, alone: bool) -> Round {
    round(relay, cursors, None, alone, CancellationToken::new()).await
}

#[tokio::test]
async fn b7_refusal_counts_only_of_an_event_that_was_sent_alone() {
    let sink = Packing::default();
    let scene = asked_for(&sink).await;
    let together = round_of(&scene, false).await;
    // Taken at its word the sink has refused them all: the double would have parked two innocents for good.
    assert_eq!((sink.0.most.swap(0, Ordering::SeqCst), lock(&sink.0.refused).len()), (3, 3));
    assert!(together.suspects && (together.sent, together.refused) == (0, 0), "{together:?}");
    let attempts = Parked::of(&scene.0.pool).list(&Filter::all(), None, 10).await.unwrap();
    assert!(attempts.len() == 3 && attempts.iter().all(|event| event.attempts == 0), "{attempts:?}");

    let alone = round_of(&scene, true).await;
    assert_eq!(sink.0.most.load(Ordering::SeqCst), 1, "one after the other");
    assert!(!alone.suspects && (alone.sent, alone.refused) == (2, 1), "{alone:?}");
    let left = Parked::of(&scene.0.pool).list(&Filter::all(), None, 10).await.unwrap();
    assert_eq!(
        left.iter().map(|event| (event.key.as_deref(), event.attempts)).collect::<Vec<_>>(),
        [(Some(&b"bad"[..]), 1)]
    );
    // Nobody asks for it again by itself.
    assert!(round_of(&scene, true).await.idle);
}

#[tokio::test]
async fn b7_round_alone_sends_nothing_beside_an_event_without_an_answer() {
    let sink = Packing(Arc::new(Seen { is_silent: true, ..Seen::default() }));
    let scene = asked_for(&sink).await;
    let alone = round_of(&scene, true).await;
    assert_eq!((alone.left_behind.len(), sink.0.most.load(Ordering::SeqCst)), (1, 1), "{alone:?}");
    // Side by side all three are on their way: the sink would see it.
    let together = round_of(&scene, false).await;
    assert_eq!((together.left_behind.len(), sink.0.most.load(Ordering::SeqCst)), (3, 4), "{together:?}");
}

#[tokio::test]
async fn round_that_fails_knows_what_it_has_sent() {
    let sink = Packing(Arc::new(Seen { is_silent: true, ..Seen::default() }));
    let scene = asked_for(&sink).await;
    // What was sent cannot be written.
    scene.0.execute("ALTER TABLE leastlock_outbox_shard RENAME TO elsewhere").await;
    let failed = round_of(&scene, false).await;
    assert!(failed.failed.is_some() && failed.left_behind.len() == 3, "{failed:?}");
}

#[tokio::test]
async fn round_that_sends_alone_goes_on_behind_the_queue_without_an_answer() {
    let sink = Packing(Arc::new(Seen { is_silent: true, ..Seen::default() }));
    let scene = asked_for(&sink).await;
    let mut after = None;
    let mut tried = BTreeSet::new();
    for _ in 0..3 {
        let alone = round(&scene.1, &scene.2, after, true, CancellationToken::new()).await;
        after = alone.last;
        tried.insert(alone.last);
    }
    assert_eq!(tried.len(), 3, "a queue of which nothing comes keeps no other from its turn");
}

#[tokio::test]
async fn round_brings_no_more_bytes_than_the_relay_may_have_in_memory() {
    const BYTES: usize = 20_000;
    let sink = Packing::default();
    let (database, relay, cursors) = asked_for(&sink).await;
    database.execute("UPDATE leastlock_outbox_parked SET value = zeroblob(20000)").await;
    let brought = async |in_flight_bytes: usize| {
        let relay = Relay::builder(&database.pool, sink.clone()).in_flight_bytes(in_flight_bytes).build().unwrap();
        let heads = heads(&relay, &cursors, None, false, &mut Round::default()).await.unwrap();
        heads.iter().flat_map(|(_, _, events)| events).map(LoggedEvent::bytes).sum::<usize>()
    };
    for limit in [1, BYTES + 5_000, 2 * BYTES + 5_000] {
        let brought = brought(limit).await;
        assert!((1..limit + BYTES + 100).contains(&brought), "{limit}: {brought}");
    }
    // The double counts queues and events.
    assert!(brought(1 << 30).await > 3 * BYTES);
    drop(relay);
}

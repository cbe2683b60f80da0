//! Events that are appended together.

use std::collections::BTreeMap;

use leastlock_outbox::{Error, Event, MemorySink, Outbox, OutboxSql, Relay};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;
use tokio_util::sync::CancellationToken;

use crate::readers::{PATIENCE, tables};

/// More than one statement takes.
const MANY: usize = 1_100;

/// Key, and what is told of it, in order: topic, value, headers, partition.
type Left = BTreeMap<Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>, String, Option<i32>)>>;

/// A way to append several events.
trait Appends {
    async fn append<DB: OutboxSql>(&self, outbox: &Outbox, tx: &mut Transaction<'_, DB>, events: &[Event]);
}

struct Together;

impl Appends for Together {
    async fn append<DB: OutboxSql>(&self, outbox: &Outbox, tx: &mut Transaction<'_, DB>, events: &[Event]) {
        outbox.append_all(tx, events).await.expect("they are appended");
    }
}

struct OneByOne;

impl Appends for OneByOne {
    async fn append<DB: OutboxSql>(&self, outbox: &Outbox, tx: &mut Transaction<'_, DB>, events: &[Event]) {
        for event in events {
            outbox.append(tx, event.clone()).await.expect("it is appended");
        }
    }
}

/// The double: a statement for all whose rows come in whatever order.
struct LastFirst;

impl Appends for LastFirst {
    async fn append<DB: OutboxSql>(&self, outbox: &Outbox, tx: &mut Transaction<'_, DB>, events: &[Event]) {
        let turned: Vec<_> = events.iter().rev().cloned().collect();
        outbox.append_all(tx, &turned).await.expect("they are appended");
    }
}

/// The double: cannot tell an empty value from none.
struct EmptyIsNone;

impl Appends for EmptyIsNone {
    async fn append<DB: OutboxSql>(&self, outbox: &Outbox, tx: &mut Transaction<'_, DB>, events: &[Event]) {
        let none = |event: &Event| match event.value() {
            Some([]) => Event::new("stock-moves", "empty"),
            _ => event.clone(),
        };
        outbox.append_all(tx, &events.iter().map(none).collect::<Vec<_>>()).await.expect("they are appended");
    }
}

fn events() -> Vec<Event> {
    let moves = || Event::new("stock-moves", "85123A");
    let mut events = vec![
        moves().bytes("{}").header("a", "1").header("a", [0xff, 0x00]).partition(0),
        Event::without_key("stock-moves").bytes("no key"),
        moves().bytes([0x00, 0xff, b'\\', b'x', b'\'']).partition(7),
        Event::new("stock-moves", "empty").bytes(""),
        // A tombstone, and a key that is no text.
        Event::new("stock-moves", [0xfe, 0x00]),
    ];
    events.extend((0..MANY).map(|number| Event::new("many", "k").bytes(number.to_string())));
    events
}

async fn what_leaves<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>, how: impl Appends) -> Left {
    let (database, outbox) = tables(database).await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let events = events();
    how.append(&outbox, &mut tx, &events).await;
    how.append(&outbox, &mut tx, &[]).await;
    tx.commit().await.expect("the commit");
    let (sink, shutdown) = (MemorySink::default(), CancellationToken::new());
    let relay = Relay::builder(&database.pool, sink.clone()).build().expect("valid settings");
    let running = tokio::spawn(relay.run(shutdown.clone()));
    let left = tokio::time::timeout(PATIENCE, sink.wait_for(events.len())).await.expect("all of them leave");
    shutdown.cancel();
    running.await.expect("no panic").expect("the relay ends well");
    assert_eq!(left.len(), events.len());
    let mut told = Left::new();
    for event in left {
        let entry = (event.topic, event.value, event.headers.to_stored(), event.partition);
        told.entry(event.key).or_default().push(entry);
    }
    told
}

pub(crate) async fn events_appended_together_leave_as_if_one_by_one<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let expected = what_leaves(database, OneByOne).await;
    assert_eq!(expected.len(), 5);
    assert_eq!(what_leaves(TestDatabase::<DB>::create().await, Together).await, expected);
    assert_ne!(what_leaves(TestDatabase::<DB>::create().await, LastFirst).await, expected, "the double is not caught");
    assert_ne!(
        what_leaves(TestDatabase::<DB>::create().await, EmptyIsNone).await,
        expected,
        "the double is not caught"
    );
}

pub(crate) async fn one_event_that_is_refused_keeps_all_back<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let (database, outbox) = tables(database).await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let events = [Event::new("t", "k").bytes("1"), Event::new("t", "k").partition(-1)];
    let refused = outbox.append_all(&mut tx, &events).await;
    assert!(matches!(refused, Err(Error::Partition { partition: -1 })), "{refused:?}");
    tx.commit().await.expect("no statement has run");
    assert_eq!(database.int("SELECT count(*) FROM leastlock_outbox").await, 0);
}

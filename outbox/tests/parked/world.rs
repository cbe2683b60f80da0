//! A database, a relay in it, and a sink that refuses what the test says.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leastlock_outbox::{
    Batch, Event, EventId, Filter, LoggedEvent, MIGRATIONS, OnRefusal, Outbox, OutboxSql, Parked, ParkedEvent, Refusal,
    Relay, SendError, Sink, Stats,
};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long what must come is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const LEASE: Duration = Duration::from_millis(1500);
pub(crate) const TOPIC: &str = "moves";

/// When a sink says that it refuses an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refuses {
    /// When it is asked, before anything is sent.
    Beforehand,
    /// As a broker does with a pipelined producer: the whole batch fails, innocents included, and not before a later one has
    /// arrived, if there is one.
    AmongOthers,
}

/// A sink that refuses some values for good.
#[derive(Clone)]
pub(crate) struct Picky(Arc<Inner>);

struct Inner {
    refuses: Refuses,
    bad: Mutex<BTreeSet<String>>,
    published: Mutex<Vec<LoggedEvent>>,
    away: Mutex<bool>,
    attempts_while_away: Mutex<u32>,
    arrived: Notify,
}

impl Picky {
    pub(crate) fn new(refuses: Refuses, bad: &[&str]) -> Self {
        let bad = bad.iter().map(|&value| value.to_owned()).collect();
        Self(Arc::new(Inner {
            refuses,
            bad: Mutex::new(bad),
            published: Mutex::default(),
            away: Mutex::default(),
            attempts_while_away: Mutex::default(),
            arrived: Notify::new(),
        }))
    }

    pub(crate) fn refuse(&self, value: &str) {
        lock(&self.0.bad).insert(value.to_owned());
    }

    pub(crate) fn mend(&self, value: &str) {
        lock(&self.0.bad).remove(value);
    }

    pub(crate) fn mend_all(&self) {
        lock(&self.0.bad).clear();
    }

    pub(crate) fn go_away(&self, away: bool) {
        *lock(&self.0.away) = away;
    }

    pub(crate) fn attempts_while_away(&self) -> u32 {
        *lock(&self.0.attempts_while_away)
    }

    /// What arrived, repeats included.
    pub(crate) fn events(&self) -> Vec<LoggedEvent> {
        lock(&self.0.published).clone()
    }

    /// What arrived of a key, without repeats, in the order of its arrival.
    pub(crate) fn of_key(&self, key: &str) -> Vec<String> {
        let mut seen = HashSet::new();
        let events = self.events();
        let first = events.iter().filter(|event| seen.insert(event.event_id));
        first.filter(|event| event.key.as_deref() == Some(key.as_bytes())).map(value).collect()
    }

    fn is_bad(&self, event: &LoggedEvent) -> bool {
        lock(&self.0.bad).contains(&value(event))
    }

    fn publish(&self, batch: Batch) {
        lock(&self.0.published).extend_from_slice(batch.events());
        batch.published();
        self.0.arrived.notify_waiters();
    }
}

impl Sink for Picky {
    async fn check(&self, events: &[LoggedEvent]) -> Vec<Refusal> {
        if self.0.refuses == Refuses::AmongOthers {
            return Vec::new();
        }
        let bad = events.iter().enumerate().filter(|(_, event)| self.is_bad(event));
        bad.map(|(index, _)| Refusal { index, reason: "it is bad".into() }).collect()
    }

    async fn send(&self, mut batch: Batch) {
        if *lock(&self.0.away) {
            *lock(&self.0.attempts_while_away) += 1;
            return batch.unknown("the broker is away");
        }
        if !batch.events().iter().any(|event| self.is_bad(event)) {
            return self.publish(batch);
        }
        let mut receipts = Vec::new();
        while let Some((_, receipt)) = batch.next() {
            receipts.push(receipt);
        }
        let sink = self.clone();
        tokio::spawn(async move {
            // Alone there is nothing to wait for; among others, for what comes behind, if it does.
            if receipts.len() > 1 {
                let _ = tokio::time::timeout(Duration::from_millis(300), sink.0.arrived.notified()).await;
            }
            for receipt in receipts {
                receipt.failed(SendError::Permanent { reason: "it is bad".into() });
            }
        });
    }

    fn abandon(&self) {}
}

pub(crate) fn value(event: &LoggedEvent) -> String {
    String::from_utf8(event.value.clone().expect("a value")).expect("text")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

/// A database with an outbox, and what an operator has.
pub(crate) struct World<DB: TestEngine + OutboxSql> {
    pub(crate) database: TestDatabase<DB>,
    pub(crate) outbox: Outbox,
    pub(crate) parked: Parked<DB>,
}

impl<DB: TestEngine + OutboxSql> World<DB> {
    pub(crate) async fn new(database: TestDatabase<DB>) -> Self {
        let database = database.with(&MIGRATIONS).await;
        let outbox = Outbox::open(&database.pool).await.expect("the tables are there");
        let parked = Parked::of(&database.pool);
        Self { database, outbox, parked }
    }

    /// Appends and commits one event; answers its id.
    pub(crate) async fn commit(&self, key: &str, value: &str) -> EventId {
        self.append(Event::new(TOPIC, key).bytes(value)).await
    }

    pub(crate) async fn append(&self, event: Event) -> EventId {
        append(&self.outbox, &self.database.pool, event).await
    }

    /// Commits values of the form `key` and number; answers the ids.
    pub(crate) async fn commit_all(&self, values: &[&str]) -> Vec<EventId> {
        let mut ids = Vec::new();
        for value in values {
            ids.push(self.commit(&value[..1], value).await);
        }
        ids
    }

    pub(crate) fn relay(&self, sink: &Picky) -> Running {
        self.relay_with(sink, OnRefusal::BlockKey, 200, 10_000)
    }

    pub(crate) fn relay_with(&self, sink: &Picky, policy: OnRefusal, page: u32, keys_in_memory: u32) -> Running {
        let relay = Relay::builder(&self.database.pool, sink.clone()).lease(LEASE).page(page).on_refusal(policy);
        let relay = relay.keys_in_memory(keys_in_memory).woken_by(self.outbox.wake()).build().expect("valid settings");
        Running::start(relay)
    }

    pub(crate) async fn list(&self) -> Vec<ParkedEvent> {
        self.parked.list(&Filter::all(), None, 1_000).await.expect("it is listed")
    }

    /// How many events are parked.
    pub(crate) async fn count(&self) -> u64 {
        self.parked.count(&Filter::all()).await.expect("it is counted").events
    }

    /// Waits until so many events are parked, none of them under way.
    pub(crate) async fn comes_to_park(&self, events: usize) -> Vec<ParkedEvent> {
        let comes = async {
            loop {
                let list = self.list().await;
                if list.len() == events && list.iter().all(|event| !event.under_way) {
                    return list;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let came = tokio::time::timeout(PATIENCE, comes).await;
        if let Ok(list) = came {
            return list;
        }
        panic!("{events} parked events never came; there are {:?}", self.list().await)
    }
}

pub(crate) async fn append<DB: TestEngine + OutboxSql>(outbox: &Outbox, pool: &Pool<DB>, event: Event) -> EventId {
    let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let id = outbox.append(&mut tx, event).await.expect("it appends");
    tx.commit().await.expect("it commits");
    outbox.wake().notify();
    id
}

/// A relay at work.
pub(crate) struct Running {
    pub(crate) stats: Stats,
    shutdown: CancellationToken,
    pub(crate) task: JoinHandle<Result<leastlock_outbox::Summary, leastlock_outbox::Error>>,
}

impl Running {
    pub(crate) fn start<L: leastlock_outbox::Log, S: Sink>(relay: Relay<L, S>) -> Self {
        let (stats, shutdown) = (relay.stats(), CancellationToken::new());
        Self { stats, task: tokio::spawn(relay.run(shutdown.clone())), shutdown }
    }

    /// Ends it in good order.
    pub(crate) async fn end(self) {
        self.shutdown.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.expect("it ends").expect("no panic").expect("the relay ran");
    }

    /// Ends it as a crash would: nothing is given back.
    pub(crate) async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Waits until a condition of the test's own holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    leastlock_testkit::until(what, PATIENCE, async || condition()).await;
}

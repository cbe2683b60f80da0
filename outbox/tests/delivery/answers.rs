//! What a sink answers late, in part, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use leastlock_outbox::{Batch, LoggedEvent, OutboxSql, Receipt, Refusal, Relay, SendError, Sink};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::doubles;
use crate::readers::{LEASE, PATIENCE, Reading, Values, commit, tables};

/// How long what must not happen is watched for.
const WATCH: Duration = Duration::from_secs(1);

pub(crate) fn value(event: &LoggedEvent) -> String {
    String::from_utf8(event.value.clone().expect("a value")).expect("text")
}

/// A sink that publishes into a list.
pub(crate) trait Adapter: Send + Sync + 'static {
    /// Publishes a batch into `values`.
    fn publish(&self, batch: Batch, values: &Values) -> impl Future<Output = ()> + Send;
}

struct Adapted<A>(A, Values);

impl<A: Adapter> Sink for Adapted<A> {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, batch: Batch) {
        self.0.publish(batch, &self.1).await;
    }

    fn abandon(&self) {}
}

fn relay_to<DB: TestEngine + OutboxSql>(pool: &Pool<DB>, adapter: impl Adapter) -> Reading {
    Reading::start(|values| {
        let relay = Relay::builder(pool, Adapted(adapter, values)).lease(LEASE).build().expect("valid settings");
        async move {
            relay.run(CancellationToken::new()).await.expect("the relay runs");
        }
    })
}

/// A producer that is dropped with what it was given, once; after that it publishes.
struct DroppedOnce {
    dropped: Arc<AtomicBool>,
    /// The double's mistake: an event counts as published once it is handed over.
    answers_at_once: bool,
}

impl Adapter for DroppedOnce {
    async fn publish(&self, mut batch: Batch, values: &Values) {
        let mut buffer: Vec<(String, Option<Receipt>)> = Vec::new();
        while let Some((event, receipt)) = batch.next() {
            let value = value(event);
            if self.answers_at_once {
                receipt.published();
                buffer.push((value, None));
            } else {
                buffer.push((value, Some(receipt)));
            }
        }
        if !self.dropped.swap(true, Ordering::SeqCst) {
            return;
        }
        for (value, receipt) in buffer {
            values.lock().expect("no panic").push(value);
            receipt.into_iter().for_each(Receipt::published);
        }
    }
}

pub(crate) async fn b9_producer_dropped_before_its_reports_marks_nothing_sent<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    for answers_at_once in [false, true] {
        let (database, outbox) = tables(TestDatabase::<DB>::create().await).await;
        commit(&outbox, &database.pool, "k", "1").await;
        let dropped = Arc::new(AtomicBool::new(false));
        let reading = relay_to(&database.pool, DroppedOnce { dropped: dropped.clone(), answers_at_once });
        let once = async {
            while !dropped.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, once).await.expect("it is dropped");
        if answers_at_once {
            commit(&outbox, &database.pool, "k", "2").await;
            assert!(reading.delivers("2", PATIENCE).await);
            assert!(!reading.values().contains(&"1".to_owned()), "the double must be seen to lose it");
        } else {
            assert!(reading.delivers("1", PATIENCE).await);
        }
    }
    drop(database);
}

/// The third of five events gets no answer the first time.
struct Gap {
    attempts: Arc<AtomicU32>,
    mistake: Mistake,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// Looks at the last report of a batch only.
    LastReport,
}

impl Adapter for Gap {
    async fn publish(&self, mut batch: Batch, values: &Values) {
        if self.attempts.fetch_add(1, Ordering::SeqCst) > 0 {
            let mut values = values.lock().expect("no panic");
            values.extend(batch.events().iter().map(value));
            return batch.published();
        }
        let kept = |value: String| values.lock().expect("no panic").push(value);
        if self.mistake == Mistake::LastReport {
            batch.events().iter().map(value).filter(|value| value != "3").for_each(kept);
            return batch.published();
        }
        let mut receipts = Vec::new();
        while let Some((event, receipt)) = batch.next() {
            receipts.push((value(event), receipt));
        }
        // The last answers come first.
        for (value, receipt) in receipts.into_iter().rev() {
            if value == "3" {
                receipt.failed(SendError::Unknown { reason: "no report".into() });
            } else {
                kept(value);
                receipt.published();
            }
        }
    }
}

pub(crate) async fn b15_what_is_behind_a_gap_is_not_noted<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    drop(database);
    for mistake in [Mistake::None, Mistake::LastReport] {
        let (database, outbox) = tables(TestDatabase::<DB>::create().await).await;
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
        for value in ["1", "2", "3", "4", "5"] {
            crate::readers::append(&outbox, &mut tx, "k", value).await;
        }
        tx.commit().await.unwrap();
        let attempts = Arc::new(AtomicU32::new(0));
        let reading = relay_to(&database.pool, Gap { attempts: attempts.clone(), mistake });
        let once = async {
            while attempts.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, once).await.expect("it is tried");
        commit(&outbox, &database.pool, "k", "6").await;
        if mistake == Mistake::None {
            // From the gap on everything is sent again, so the last that is said of the key is the latest.
            let again = ["3", "4", "5", "6"];
            assert!(reading.comes_to(PATIENCE, |values| values.ends_with(&again.map(str::to_owned))).await);
            let twos = reading.values().into_iter().filter(|value| value == "2").count();
            assert_eq!(twos, 1, "the prefix is not repeated");
        } else {
            assert!(reading.delivers("6", PATIENCE).await);
            let values = reading.values();
            let third = values.iter().any(|value| value == "3");
            assert!(!third, "the double must be seen to lose it: {values:?}");
        }
    }
}

/// Publishes the first two events, and the others only once it is let.
struct Slow {
    let_go: Arc<Notify>,
    /// The double's mistake: what has no report by its own deadline counts as published.
    gives_up: bool,
}

impl Adapter for Slow {
    async fn publish(&self, mut batch: Batch, values: &Values) {
        let mut late = Vec::new();
        while let Some((event, receipt)) = batch.next() {
            let value = value(event);
            if values.lock().expect("no panic").len() < 2 {
                values.lock().expect("no panic").push(value);
                receipt.published();
            } else {
                late.push(receipt);
            }
        }
        if self.gives_up {
            return late.into_iter().for_each(Receipt::published);
        }
        let let_go = self.let_go.clone();
        tokio::spawn(async move {
            let_go.notified().await;
            drop(late);
        });
    }
}

pub(crate) async fn b17_what_has_no_answer_by_the_deadline_is_not_marked_done<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    drop(database);
    for gives_up in [false, true] {
        let (database, outbox) = tables(TestDatabase::<DB>::create().await).await;
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
        for value in ["1", "2", "3", "4"] {
            crate::readers::append(&outbox, &mut tx, "k", value).await;
        }
        tx.commit().await.unwrap();
        let (values, let_go, shutdown) = (Values::default(), Arc::new(Notify::new()), CancellationToken::new());
        let adapted = Adapted(Slow { let_go: let_go.clone(), gives_up }, values.clone());
        let relay = Relay::builder(&database.pool, adapted).lease(LEASE).drain(Duration::from_millis(100));
        let running = tokio::spawn(relay.build().unwrap().run(shutdown.clone()));
        let two = async {
            while values.lock().expect("no panic").len() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, two).await.expect("a part is acknowledged");
        shutdown.cancel();
        running.await.unwrap().unwrap();
        let_go.notify_waiters();

        let next = Reading::product(&database.pool);
        commit(&outbox, &database.pool, "k", "5").await;
        assert!(next.delivers("5", PATIENCE).await);
        if gives_up {
            assert_eq!(next.values(), ["5"], "the double must be seen to lose what had no answer");
        } else {
            assert_eq!(next.values(), ["3", "4", "5"], "what was acknowledged is noted, the rest is not");
        }
    }
}

/// Waits to be let go before it publishes.
pub(crate) struct Held {
    pub(crate) entered: Arc<Notify>,
    pub(crate) let_go: Arc<Notify>,
}

impl Adapter for Held {
    async fn publish(&self, batch: Batch, values: &Values) {
        self.entered.notify_one();
        self.let_go.notified().await;
        values.lock().expect("no panic").extend(batch.events().iter().map(value));
        batch.published();
    }
}

/// A reader whose publishing is held up, and the ends that hold it.
struct HeldUp {
    reading: Reading,
    entered: Arc<Notify>,
    let_go: Arc<Notify>,
}

impl HeldUp {
    fn start<DB: TestEngine + OutboxSql>(pool: &Pool<DB>, is_double: bool) -> Self {
        let (entered, let_go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let held = Held { entered: entered.clone(), let_go: let_go.clone() };
        let reading = if is_double { doubles::locking_loop(pool, held) } else { relay_to(pool, held) };
        Self { reading, entered, let_go }
    }

    async fn is_publishing(&self) {
        tokio::time::timeout(PATIENCE, self.entered.notified()).await.expect("it publishes");
    }
}

pub(crate) async fn b6_no_lock_is_held_while_the_sink_is_waited_for<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    drop(database);
    for is_double in [false, true] {
        let (database, outbox) = tables(TestDatabase::<DB>::create().await).await;
        commit(&outbox, &database.pool, "k", "1").await;
        let held_up = HeldUp::start(&database.pool, is_double);
        held_up.is_publishing().await;
        // Whoever has every row of the tables to himself meets no lock, and no transaction holds up a vacuum.
        let others = async {
            let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
            for update in
                ["UPDATE leastlock_outbox SET headers = headers", "UPDATE leastlock_outbox_shard SET epoch = epoch"]
            {
                leastlock_core::Statement::new(update).execute::<DB>(&mut tx).await.unwrap();
            }
            tx.rollback().await.unwrap();
        };
        let free = tokio::time::timeout(if is_double { WATCH } else { PATIENCE }, others).await.is_ok();
        assert_eq!(free, !is_double, "the double must be seen to hold locks, the relay to hold none");
        held_up.let_go.notify_one();
        assert!(held_up.reading.delivers("1", PATIENCE).await);
    }
}

pub(crate) async fn b5_lease_is_kept_while_publishing_is_slow<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    drop(database);
    for is_double in [false, true] {
        let (database, outbox) = tables(TestDatabase::<DB>::create().await).await;
        commit(&outbox, &database.pool, "k", "1").await;
        if DB::SHARDED {
            // One that stays with the first relay: of what it hands over, nothing is waited for longer than a lease.
            database.execute("UPDATE leastlock_outbox SET shard = 0").await;
        }
        let (entered, let_go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let held = Held { entered: entered.clone(), let_go: let_go.clone() };
        let slow = if is_double {
            doubles::renewing_between_batches(&database.pool, LEASE, held)
        } else {
            relay_to(&database.pool, held)
        };
        tokio::time::timeout(PATIENCE, entered.notified()).await.expect("it publishes");
        let other = Reading::product(&database.pool);
        // Several leases long.
        let taken = other.delivers("1", if is_double { PATIENCE } else { LEASE * 3 }).await;
        assert_eq!(taken, is_double, "the double must be seen to lose its lease, the relay to keep it");
        let_go.notify_one();
        assert!(slow.delivers("1", PATIENCE).await);
    }
}

//! What the suite needs of a reader: the product's relay and the doubles are both readers.

#[cfg(any(feature = "postgres", feature = "mysql"))]
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leastlock_outbox::{Batch, Event, LoggedEvent, MIGRATIONS, Outbox, OutboxSql, Refusal, Relay, Sink};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{Pool, Transaction};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a delivery that must come is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The lease of the relays under test. Not so short that a busy machine leaves a statement without an answer: the relay would
/// publish again, and tests count.
pub(crate) const LEASE: Duration = Duration::from_millis(1500);

/// A reader at work, and the values of the events that it delivered.
pub(crate) struct Reading {
    values: Values,
    task: JoinHandle<()>,
}

/// What a reader delivered, in order.
pub(crate) type Values = Arc<Mutex<Vec<String>>>;

impl Reading {
    /// Starts a reader that pushes what it reads.
    pub(crate) fn start<F: Future<Output = ()> + Send + 'static>(reader: impl FnOnce(Values) -> F) -> Self {
        let values = Values::default();
        Self { values: values.clone(), task: tokio::spawn(reader(values)) }
    }

    /// The product: a relay with a short lease.
    pub(crate) fn product<DB: TestEngine + OutboxSql>(pool: &Pool<DB>) -> Self {
        Self::relay(pool, 200)
    }

    pub(crate) fn relay<DB: TestEngine + OutboxSql>(pool: &Pool<DB>, page: u32) -> Self {
        Self::with_lease(pool, page, LEASE)
    }

    /// The product with a lease that no pause of a busy machine ends, for tests in which it must repeat nothing.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn unhurried<DB: TestEngine + OutboxSql>(pool: &Pool<DB>, page: u32) -> Self {
        Self::with_lease(pool, page, Duration::from_mins(1))
    }

    fn with_lease<DB: TestEngine + OutboxSql>(pool: &Pool<DB>, page: u32, lease: Duration) -> Self {
        Self::start(|values| {
            let relay = Relay::builder(pool, Recorder(values)).lease(lease).page(page);
            let relay = relay.build().expect("valid settings");
            async move {
                relay.run(CancellationToken::new()).await.expect("the relay runs");
            }
        })
    }

    pub(crate) fn values(&self) -> Vec<String> {
        self.values.lock().expect("no panic").clone()
    }

    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn received(&self) -> Received {
        Received::of(&self.values())
    }

    /// Whether `condition` comes to hold within `limit`.
    pub(crate) async fn comes_to(&self, limit: Duration, condition: impl Fn(&[String]) -> bool) -> bool {
        let holds = async {
            while !condition(&self.values()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(limit, holds).await.is_ok()
    }

    pub(crate) async fn delivers(&self, value: &str, limit: Duration) -> bool {
        self.comes_to(limit, |values| values.iter().any(|other| other == value)).await
    }

    /// Ends it as a crash would: nothing is given back.
    pub(crate) async fn crash(mut self) -> Vec<String> {
        let values = self.values();
        self.task.abort();
        let _ = (&mut self.task).await;
        values
    }
}

impl Drop for Reading {
    /// Before its database goes, which would be a complaint of each double's.
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What came of events whose values are `key:number`, numbered from 1 in the order of their commits.
#[cfg(any(feature = "postgres", feature = "mysql"))]
#[derive(Debug, Default)]
pub(crate) struct Received {
    numbers: BTreeMap<String, BTreeSet<i64>>,
    /// Those that came before one with a lower number, which came for the first time after them.
    pub(crate) inverted: Vec<String>,
    /// Those that came again.
    pub(crate) doubled: Vec<String>,
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
impl Received {
    pub(crate) fn of(values: &[String]) -> Self {
        let mut received = Self::default();
        for value in values {
            let (key, number) = value.split_once(':').expect("key:number");
            let (numbers, number) =
                (received.numbers.entry(key.to_owned()).or_default(), number.parse().expect("a number"));
            if numbers.last().is_some_and(|last| *last > number) && !numbers.contains(&number) {
                received.inverted.push(value.clone());
            }
            if !numbers.insert(number) {
                received.doubled.push(value.clone());
            }
        }
        received
    }

    /// Wherein what came differs from what was committed: up to a number of each key.
    pub(crate) fn missing(&self, committed: &BTreeMap<String, i64>) -> BTreeSet<String> {
        let committed =
            committed.iter().flat_map(|(key, last)| (1..=*last).map(move |number| format!("{key}:{number}")));
        let came = self.numbers.iter().flat_map(|(key, all)| all.iter().map(move |number| format!("{key}:{number}")));
        committed.collect::<BTreeSet<_>>().symmetric_difference(&came.collect()).cloned().collect()
    }

    pub(crate) fn has_all(&self, committed: &BTreeMap<String, i64>) -> bool {
        committed
            .iter()
            .all(|(key, last)| self.numbers.get(key).is_some_and(|numbers| i64::try_from(numbers.len()) == Ok(*last)))
    }
}

/// Keeps the values of the events.
struct Recorder(Values);

impl Sink for Recorder {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, batch: Batch) {
        let value = |event: &LoggedEvent| String::from_utf8(event.value.clone().expect("a value")).expect("text");
        self.0.lock().expect("no panic").extend(batch.events().iter().map(value));
        batch.published();
    }

    fn abandon(&self) {}
}

pub(crate) async fn tables<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) -> (TestDatabase<DB>, Outbox) {
    let database = database.with(&MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.expect("the tables are there");
    (database, outbox)
}

pub(crate) async fn append<DB: TestEngine + OutboxSql>(
    outbox: &Outbox,
    tx: &mut Transaction<'_, DB>,
    key: &str,
    value: &str,
) {
    outbox.append(tx, Event::new("moves", key).bytes(value)).await.expect("it appends");
}

/// Appends and commits.
pub(crate) async fn commit<DB: TestEngine + OutboxSql>(outbox: &Outbox, pool: &Pool<DB>, key: &str, value: &str) {
    let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    append(outbox, &mut tx, key, value).await;
    tx.commit().await.expect("it commits");
}

/// Where events are appended: before the business transaction begins, or inside it.
pub(crate) trait Appender {
    async fn before<DB: TestEngine + OutboxSql>(&self, outbox: &Outbox, pool: &Pool<DB>, value: &str);
    async fn inside<DB: TestEngine + OutboxSql>(&self, outbox: &Outbox, tx: &mut Transaction<'_, DB>, value: &str);
}

/// The product's way.
pub(crate) struct Inside;

impl Appender for Inside {
    async fn before<DB: TestEngine + OutboxSql>(&self, _outbox: &Outbox, _pool: &Pool<DB>, _value: &str) {}

    async fn inside<DB: TestEngine + OutboxSql>(&self, outbox: &Outbox, tx: &mut Transaction<'_, DB>, value: &str) {
        append(outbox, tx, "k", value).await;
    }
}

/// Waits until a query answers with this number.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) async fn until_it_counts<DB: TestEngine>(database: &TestDatabase<DB>, sql: &'static str, count: i64) {
    let what = format!("{sql} answers {count}");
    leastlock_testkit::until(&what, PATIENCE, async || database.int(sql).await == count).await;
}

//! A test kit: handlers against scripted records, rebalances and crashes, without a broker.
//!
//! What runs is the worker itself: its dispatcher and lanes, its seal, fence and fold in the database, its failure policies. Only
//! Kafka is scripted: the group, the logs, the committed offsets, and the topics that failed records go to. The Kafka client is
//! linked, since the worker's settings and errors are made of its types, but none is started.
//!
//! # Run once
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leastlock_partition_worker::dead_letter::Origin;
//! use leastlock_partition_worker::testing::TestKit;
//! use leastlock_partition_worker::{Effect, Failure, Handler, MIGRATIONS, OnFailure, Record};
//! use sqlx::{Sqlite, Transaction};
//!
//! struct Ledger;
//!
//! impl Handler<Sqlite> for Ledger {
//!     async fn handle(&self, record: &Record, tx: &mut Transaction<'_, Sqlite>) -> Result<(), Failure> {
//!         let units: i64 = record.json()?;
//!         let add = sqlx::query("INSERT INTO ledger VALUES (?, ?) ON CONFLICT (code) DO UPDATE SET units = units + excluded.units");
//!         add.bind(record.key()).bind(units).execute(&mut **tx).await?;
//!         Ok(())
//!     }
//! }
//! # let folder = tempfile::tempdir()?;
//! # let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.path().join("ledger")).create_if_missing(true);
//! # let pool = sqlx::SqlitePool::connect_with(options).await?;
//! # MIGRATIONS.run(&pool).await?;
//! # sqlx::query("CREATE TABLE ledger (code BLOB PRIMARY KEY, units INTEGER NOT NULL)").execute(&pool).await?;
//!
//! let kit = TestKit::in_database("stock-moves", 2)
//!     .configure(|worker| worker.on_failure(OnFailure::dead_letter("stock-moves-dead")));
//! kit.record("85123A", "7");
//! kit.record("85123A", "-3");
//! kit.record("71053", "a lot");
//!
//! let summary = kit.run(Effect::in_database(&pool), Ledger).await?;
//!
//! assert_eq!(summary.processed(), 2);
//! assert_eq!(sqlx::query_scalar::<_, i64>("SELECT units FROM ledger").fetch_one(&pool).await?, 4);
//! let dead = kit.records("stock-moves-dead");
//! assert_eq!(dead[0].key(), Some(&b"71053"[..]));
//! assert!(Origin::of(&dead[0]).is_some_and(|origin| origin.error.contains("is not the JSON expected")));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! # Torture
//! [`torture`](TestKit::torture) handles the records once without faults, then once for each seed with [faults](Fault), in a
//! fresh database each time, and compares what the database holds in the end. A handler that keeps what it knows in memory, or writes
//! past its transaction, comes to another end:
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicI64, Ordering};
//!
//! use leastlock_partition_worker::testing::{TestError, TestKit};
//! use leastlock_partition_worker::{Failure, Process, Record};
//!
//! /// Adds up in a place of which no commit knows: as if it called another service without an idempotency key.
//! struct Careless(Arc<AtomicI64>);
//!
//! impl Process for Careless {
//!     async fn process(&self, record: &Record) -> Result<(), Failure> {
//!         self.0.fetch_add(record.json()?, Ordering::Relaxed);
//!         Ok(())
//!     }
//! }
//!
//! let kit = TestKit::at_least_once("stock-moves", 2);
//! for number in 0..40 {
//!     kit.record(format!("key {}", number % 5), "1");
//! }
//! let fresh = async || Arc::new(AtomicI64::new(0));
//! let end = async |units: &Arc<AtomicI64>| units.load(Ordering::Relaxed);
//! let tortured = kit.torture(1..=20, fresh, |units| Careless(Arc::clone(units)), end).await;
//! assert!(matches!(tortured, Err(TestError::Differs { .. })), "a record was counted twice");
//! # Ok(())
//! # }
//! ```
//!
//! The seed decides the faults and their order, not how the threads take turns: a seed that finds a mistake finds it mostly, not always.

use std::sync::Arc;

mod broker;
mod fault;
mod group;
mod handlers;
mod kit;
mod member;
mod murmur2;
mod torture;

pub use self::fault::{Fault, TestError, Under};
pub(crate) use self::member::Member;
pub use self::torture::Survived;

use self::broker::Broker;
use crate::effect::{AtLeastOnce, InDatabase, Mode};
use crate::record::Record;
use crate::sql::WorkerSql;
use crate::worker::Builder;

type Configure<M> = dyn Fn(Builder<M>) -> Builder<M> + Send + Sync;

/// Records, a group, and the settings of a worker.
pub struct TestKit<M: Mode> {
    topics: Vec<String>,
    broker: Arc<Broker>,
    configure: Box<Configure<M>>,
}

impl<DB: WorkerSql> TestKit<InDatabase<DB>> {
    /// For handlers whose effect is in a database: a topic with so many partitions.
    #[must_use]
    pub fn in_database(topic: impl Into<String>, partitions: i32) -> Self {
        Self::new().topic(topic, partitions)
    }
}

impl TestKit<AtLeastOnce> {
    /// For handlers whose effect is anywhere: a topic with so many partitions.
    #[must_use]
    pub fn at_least_once(topic: impl Into<String>, partitions: i32) -> Self {
        Self::new().topic(topic, partitions)
    }
}

impl<M: Mode> TestKit<M> {
    fn new() -> Self {
        Self { topics: Vec::new(), broker: Arc::default(), configure: Box::new(|builder| builder) }
    }

    /// One more topic that the worker consumes.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>, partitions: i32) -> Self {
        let topic = topic.into();
        self.broker.create_topic(&topic, partitions.max(1));
        self.topics.push(topic);
        self
    }

    /// The worker's settings, as an application would make them. Pauses are shorter than an application's unless they are set here:
    /// from 1 ms to 20 ms before a handler is tried again, 20 ms between folds and between commits.
    #[must_use]
    pub fn configure(mut self, configure: impl Fn(Builder<M>) -> Builder<M> + Send + Sync + 'static) -> Self {
        self.configure = Box::new(configure);
        self
    }

    /// Appends a record to the first topic, to the partition that a Java producer would choose; answers partition and offset.
    pub fn record(&self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) -> (i32, i64) {
        let value = value.into();
        let topic = self.topics.first().map_or("", |topic| topic);
        self.broker.append(topic, |record| record.with_key(&key).with_value(value.clone()))
    }

    /// Appends a record at the place that it names; so there may be holes, tombstones, headers, and records without a key.
    ///
    /// # Errors
    /// [`TestError::Place`] if the log has that offset, or later ones, already.
    pub fn place(&self, record: Record) -> Result<(), TestError> {
        let (partition, offset) = (record.source().clone(), record.offset());
        if self.broker.append_at(record) { Ok(()) } else { Err(TestError::Place { partition, offset }) }
    }

    /// The records of a topic, partition by partition: what is in a dead-letter or parking topic, too.
    #[must_use]
    pub fn records(&self, topic: &str) -> Vec<Record> {
        self.broker.records(topic)
    }
}

impl<M: Mode> std::fmt::Debug for TestKit<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestKit").field("topics", &self.topics).finish_non_exhaustive()
    }
}

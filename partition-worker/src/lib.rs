//! One Kafka-partitioned writer per key, with an exactly-once effect in the database.
//!
//! Two services that write the same row need a lock, or one of them is not to write it. Kafka gives each partition of a topic
//! to one consumer of a group, so with the records of a key in one partition there is one writer for it. But a consumer
//! that stood still for longer than its session has lost the partition without knowing, and then there are two. This
//! crate makes that harmless: the ownership is also a number in the database, an *epoch*, and each transaction checks it.
//!
//! There are three ways for records to take effect: `Worker::run` with a [`Handler`] gives each a transaction of its own,
//! `run_batches` with a [`BatchHandler`] one to many of them, and with `Effect::at_least_once` there is no database: a
//! [`Process`] is called at least once for each record. What follows is said of the first two.
//!
//! # What it guarantees
//! - **Exactly-once effect.** What a handler writes through its transaction takes effect exactly once for each record, through
//!   crashes, rebalances, lost replies and workers that wake up late: the same transaction marks the record as finished, and it
//!   cannot commit once another worker has *sealed* the partition.
//! - **Order per key.** Records of one key take effect in the order of their offsets; many keys go on at once.
//! - **No skipped record.** A failing handler is tried again, and its key waits for it; in the end the worker stops and says which
//!   record it is, or does what it is [told](OnFailure): skips it, or copies it to another topic, alone or with what
//!   follows it. An offset that Kafka does not have any more stops the worker as well.
//! - **Polling never waits.** Handlers and seals run beside the thread that polls, so a slow one costs no rebalance.
//!
//! # What it does not promise
//! - Anything about what a handler does outside of its transaction: that may happen more than once.
//! - Order between keys, or between partitions.
//! - Progress while a handler of an earlier owner has its transaction open: on PostgreSQL and MariaDB the server ends it after
//!   [`Timeouts::idle`] at the latest; SQLite has one writer at a time, and a *stopped* one blocks the file.
//! - Kafka's committed offset being exact: it is a hint, and the database is what a worker starts from.
//!
//! # Example
//! A ledger of stock moves, on SQLite and on the mock cluster that librdkafka brings along:
//!
//! ```
//! # #[cfg(all(feature = "kafka", feature = "sqlite"))]
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leastlock_partition_worker::{Effect, Failure, Handler, MIGRATIONS, Record, Worker};
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
//! # use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
//! # let folder = tempfile::tempdir()?;
//! # let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.path().join("ledger")).create_if_missing(true);
//! # let pool = sqlx::SqlitePool::connect_with(options).await?;
//! # let mut mock = rdkafka::ClientConfig::new();
//! # let producer: FutureProducer = mock.set("test.mock.num.brokers", "1").create()?;
//! # let cluster = producer.client().mock_cluster().ok_or("a mock cluster")?;
//! # cluster.create_topic("stock-moves", 2, 1)?;
//! # let mut kafka = rdkafka::ClientConfig::new();
//! # kafka.set("bootstrap.servers", cluster.bootstrap_servers()).set("group.id", "ledger");
//! # for units in ["7", "-3", "-1"] {
//! #     let sent = producer.send(FutureRecord::to("stock-moves").key("85123A").payload(units), None).await;
//! #     sent.map_err(|(error, _)| error)?;
//! # }
//! # let shutdown = tokio_util::sync::CancellationToken::new();
//!
//! MIGRATIONS.run(&pool).await?;
//! sqlx::query("CREATE TABLE ledger (code BLOB PRIMARY KEY, units INTEGER NOT NULL)").execute(&pool).await?;
//! # let (stop, reader) = (shutdown.clone(), pool.clone());
//! # tokio::spawn(async move {
//! #     let left = "SELECT count(*) FROM ledger WHERE units = 3";
//! #     while !matches!(sqlx::query_scalar::<_, i64>(left).fetch_one(&reader).await, Ok(1)) {
//! #         tokio::time::sleep(std::time::Duration::from_millis(20)).await;
//! #     }
//! #     stop.cancel();
//! # });
//! let summary =
//!     Worker::builder(kafka).topic("stock-moves").effect(Effect::in_database(&pool)).build()?.run(Ledger, shutdown).await?;
//! assert_eq!(summary.processed(), 3);
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "kafka", feature = "sqlite")))]
//! # fn main() {}
//! ```
//!
//! # How it works
//! 1. Kafka assigns partitions. Before any record is taken, each is [sealed](progress::Progress::seal): a new epoch is committed to
//!    a *gate* row, at which handlers of earlier owners stop that start from now on; then it is raised in the *guard* row, which
//!    waits for those that are still open. The seal answers what is finished.
//! 2. Records go into [lanes], by their key unless another [ordering] was chosen. A handler's transaction begins with a
//!    [fence](progress::Progress::enter) that checks the epoch, keeps the guard row shared, and inserts the record's offset as
//!    finished; a batch's with [one for all its records](progress::Progress::enter_all).
//! 3. From time to time finished offsets are [folded](progress::Progress::fold) into one number.
//! 4. A partition that is taken back is given up at once: open handlers finish or are fenced, and the next owner's seal is
//!    what waits for them. Without a database they may finish first, what is finished is committed, and then it is given up.
//!
//! | module | concept |
//! |---|---|
//! | `worker` (feature `kafka`) | `Worker` and its builder: what an application runs |
//! | [`handler`] | what an application writes, and how it fails |
//! | [`record`] | a record, independent of the Kafka client |
//! | `effect` (feature `kafka`) | where the effect goes |
//! | [`progress`] | seal, fence and fold: the exactly-once effect in the database |
//! | [`own_transaction`] | a handler's transaction, which leaves its connection as it was |
//! | [`tracker`] | which offset may be committed; pure |
//! | [`runs`] | finished offsets as runs, and how they travel in a commit; pure |
//! | [`ordering`] | which records are in order; pure |
//! | [`lanes`] | one record of a key at a time; pure |
//! | [`assignment`] | the rebalance as a state machine; pure |
//! | [`flow`] | back-pressure; pure |
//! | `health` (feature `kafka`) | how a worker is, for a readiness probe |
//! | `lag` (feature `kafka`) | how far it is behind |
//! | `testing` (feature `testing`) | handlers against scripted records, rebalances and crashes |
//! | `metrics` (feature `metrics`) | what workers measure |
//! | [`on_failure`] | what becomes of a record that its handler has failed for good |
//! | [`dead_letter`] | copies of records in another topic |
//! | [`parked`] | keys that wait for an operator |
//! | [`poison`] | records that kill the process |
//! | [`partition`] | names of partitions, epochs, and ids of topics |
//! | [`summary`] | what a worker did |
//! | [`error`] | what can go wrong |
//! | [`sql`] | tables and statements per engine |

#[cfg(feature = "kafka")]
mod dispatch;
#[cfg(feature = "kafka")]
pub mod effect;
#[cfg(feature = "kafka")]
pub mod health;
#[cfg(feature = "kafka")]
mod inquiry;
#[cfg(feature = "kafka")]
pub mod lag;
#[cfg(feature = "kafka")]
mod polling;
#[cfg(feature = "kafka")]
mod settings;
#[cfg(feature = "kafka")]
mod stall;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "kafka")]
mod topic_id;
#[cfg(feature = "kafka")]
pub mod worker;

pub mod assignment;
pub mod dead_letter;
pub mod error;
pub mod flow;
pub mod handler;
pub mod lanes;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod on_failure;
pub mod ordering;
pub mod own_transaction;
pub mod parked;
pub mod partition;
pub mod poison;
pub mod progress;
pub mod record;
pub mod runs;
pub mod sql;
pub mod summary;
pub mod tracker;

#[cfg(feature = "kafka")]
pub use crate::effect::Effect;
pub use crate::error::Error;
pub use crate::flow::Limits;
pub use crate::handler::{BatchFailure, BatchHandler, Failure, Handler, Process};
#[cfg(feature = "kafka")]
pub use crate::health::{Health, Probe};
#[cfg(feature = "kafka")]
pub use crate::lag::PartitionLag;
pub use crate::on_failure::OnFailure;
pub use crate::ordering::{NullKeys, Ordering};
pub use crate::own_transaction::OwnTransaction;
pub use crate::parked::Parked;
pub use crate::partition::{Epoch, TopicId, TopicPartition};
pub use crate::progress::{Progress, Timeouts};
pub use crate::record::Record;
pub use crate::sql::{MIGRATIONS, WorkerSql};
#[cfg(feature = "kafka")]
pub use crate::stall::OnStall;
pub use crate::summary::{PartitionSummary, Summary};
#[cfg(feature = "kafka")]
pub use crate::worker::{Builder, Worker};

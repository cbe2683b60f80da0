//! Transactional outbox: an event leaves if and only if its transaction commits; in commit order per key, if each writer updates or
//! locks the key's row before it appends, or is [strict](Outbox::strict).
//!
//! A service that writes to its database and then tells a broker can stop in between; one that tells first can fail to
//! write. Here the event is a row of the same transaction. A relay reads the rows that became visible and publishes them,
//! at least once, the first occurrences of a key's events in the order of their commits.
//!
//! ```
//! use leastlock_outbox::{Event, MemorySink, Outbox, Relay};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite://{}?mode=rwc", folder.path().join("shop.sqlite").display());
//! # let pool = sqlx::SqlitePool::connect(&url).await?;
//! leastlock_outbox::MIGRATIONS.run(&pool).await?;
//! let outbox = Outbox::open(&pool).await?;
//!
//! let mut tx = pool.begin().await?;
//! // … the business writes; the key's row first …
//! outbox.append(&mut tx, Event::new("stock-moves", "85123A").json(&-3)?).await?;
//! tx.commit().await?;
//!
//! let sink = MemorySink::default(); // or KafkaSink
//! let shutdown = CancellationToken::new();
//! let relay = tokio::spawn(Relay::builder(&pool, sink.clone()).build()?.run(shutdown.clone()));
//! let published = sink.wait_for(1).await;
//! assert_eq!(published[0].key.as_deref(), Some(&b"85123A"[..]));
//! shutdown.cancel();
//! assert_eq!(relay.await??.published, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Take [`Relay::stats`] before [`Relay::run`], and keep the handle of the task: a relay that ends with an error ends unnoticed
//! otherwise.
//!
//! # When an event cannot be sent
//! A record that its topic cannot take is *parked* with its key: later events of the key wait behind it, all others go on, until an
//! operator retries, skips or releases it ([`Parked`]). [`RelayBuilder::on_refusal`] has other policies. A broker that is away is
//! waited for; that parks nothing.
//!
//! # What it does not promise
//! - Exactly once at the broker: a relay that stops after publishing and before noting it publishes again, with the same
//!   event id. Consumers absorb repeats by that id, or by their own progress.
//! - An order between keys, or of events without a key.
//! - The order of a key whose writers do not take turns: ids follow the key's lock only if each writer updated the key's
//!   row, or locked it `FOR NO KEY UPDATE` (on MariaDB and MySQL `FOR UPDATE`) or stronger, before it appended. Share and
//!   foreign-key locks order nobody. On MariaDB and MySQL all writers of a key have to write to one server. In
//!   [strict mode](Outbox::strict) the outbox takes a lock of its own.
//! - Durability beyond the database's own: with `synchronous_commit=off` (`innodb_flush_log_at_trx_commit` other than 1), or
//!   after an asynchronous failover, an event may outlive its transaction.
//! - A replay on MariaDB and MySQL: events are deleted once they are published.
//!
//! | module | concept |
//! |---|---|
//! | [`event`] | what another system is told |
//! | [`headers`] | its headers |
//! | [`cloud_event`] | its attributes as a CloudEvent |
//! | [`trace`] | the trace that it belongs to |
//! | [`outbox`] | `append` and `append_all`, inside the business transaction |
//! | [`inbox`] | which events a consumer has seen |
//! | [`relay`] | reads what became visible, publishes, notes how far |
//! | [`parked`] | events that cannot be sent: list, retry, skip, release |
//! | [`sink`] | where events go: Kafka, memory |
//! | [`replay`] | events that are still in the log, published once more |
//! | [`rebase`](mod@rebase) | a cursor set anew, after the database was restored or moved |
//! | `raise` (feature `postgres`) | more shards, while events are appended and published |
//! | [`lag`] | how far publishing is behind |
//! | `metrics` (feature `metrics`) | what relays measure |
//! | [`doctor`](mod@doctor) | settings and states that lose events, delay them, or will |
//! | `wal` | an outbox without a table: messages in the write-ahead log (feature `wal`, PostgreSQL) |
//! | [`error`] | what can go wrong, and whether a retry helps |

pub mod cloud_event;
pub mod doctor;
pub mod error;
pub mod event;
pub mod headers;
pub mod inbox;
pub mod lag;
#[cfg(feature = "metrics")]
pub mod metrics;
mod migrations;
pub mod outbox;
pub mod parked;
#[cfg(feature = "postgres")]
pub mod raise;
pub mod rebase;
pub mod relay;
pub mod replay;
mod shard;
pub mod sink;
mod sql;
mod strict;
pub mod trace;
#[cfg(feature = "wal")]
pub mod wal;

pub use crate::cloud_event::{CloudEvent, CloudEventError};
#[cfg(feature = "kafka")]
pub use crate::doctor::doctor_kafka;
pub use crate::doctor::{DoctorSql, Finding, Severity, doctor};
pub use crate::error::Error;
pub use crate::event::{Event, EventId};
pub use crate::headers::Headers;
pub use crate::inbox::{Arrival, ConsumerName, Inbox, InboxSql};
pub use crate::lag::Lag;
pub use crate::migrations::MIGRATIONS;
pub use crate::outbox::{Outbox, Wake};
pub use crate::parked::{Asked, Filter, Parked, ParkedEvent, Retry};
#[cfg(feature = "postgres")]
pub use crate::raise::raise_shards;
pub use crate::rebase::{RebaseSql, Rebased, rebase};
pub use crate::relay::{Log, OnRefusal, Relay, RelayBuilder, SqlLog, Stats, Summary};
pub use crate::replay::{Replay, ReplaySql};
#[cfg(feature = "kafka")]
pub use crate::sink::kafka::{KafkaSink, KafkaSinkError};
pub use crate::sink::memory::MemorySink;
pub use crate::sink::{Batch, LoggedEvent, Receipt, Refusal, SendError, Sink};
pub use crate::sql::OutboxSql;
pub use crate::trace::TraceContext;
#[cfg(feature = "wal")]
pub use crate::wal::WalOutbox;

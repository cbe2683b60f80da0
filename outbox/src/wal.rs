//! An outbox without a table: events are messages in PostgreSQL's write-ahead log.
//!
//! [`WalOutbox::append`] writes the event into the log as a logical message of the caller's transaction
//! (`pg_logical_emit_message`), and nowhere else. A relay reads the log through a replication slot, with SQL functions,
//! and moves the slot only over what the sink has acknowledged. Of a rolled-back transaction or savepoint the server
//! decodes nothing.
//!
//! Feature `wal`; PostgreSQL 14 or later with `wal_level = logical`. Tested on 15.
//!
//! ```no_run
//! use leastlock_outbox::{Event, MemorySink, WalOutbox};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! let outbox = WalOutbox::new("shop_events")?;
//! outbox.setup(&pool).await?; // once; events that are appended before are refused
//!
//! let mut tx = pool.begin().await?;
//! // … the business writes …
//! outbox.append(&mut tx, Event::new("stock-moves", "85123A").json(&-3)?).await?;
//! tx.commit().await?;
//!
//! let relay = outbox.relay(&pool, MemorySink::default()).build()?;
//! relay.run(CancellationToken::new()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is better than with a table
//! - Nothing to vacuum, to retain or to delete; an append writes the log once and touches no index.
//! - The order of *all* events is that of their commits, whether or not the writers locked the key's row before they
//!   appended.
//! - Only what is on disk is decoded: with `synchronous_commit = off` no event outlives its transaction.
//!
//! # What is worse
//! - While no relay runs the server keeps its log, of *all* databases: the disk fills, or, with
//!   `max_slot_wal_keep_size`, the slot is lost and its events with it. Watch [`WalOutbox::lag`]; its
//!   [`dangers`](WalLag::dangers) say which of the two it is.
//! - The slot is not in a dump, and before PostgreSQL 17 not on a replica: after a failover there is none, and
//!   unpublished events are lost. `append` refuses events until there is a slot again, so none is lost after that
//!   unnoticed. On 17 and later make the slot yourself with `failover => true` before `setup`, which takes it as it is.
//! - A read decodes the log of the whole cluster from the beginning of the oldest transaction that was open at the last
//!   running-transactions record (every 15 s) on: with a long transaction open anywhere, each read gets dearer. The
//!   relay spends half of its time on reads that find nothing, at most.
//! - There is one reader, hence one shard; no replay of what was published; and nowhere to park an event.
//! - A relay's role needs the attribute `REPLICATION`; `append` needs none.
//! - After a crash of the *server* up to half a minute of events repeats: it stores a slot's position now and then
//!   only.
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | `max_event_bytes` | 1,000,000 | key, value and headers of an event |
//! | log decoded at a time | 64 MiB | waits in a file of the server if it is large; a larger transaction is in one file |
//! | a log without events | 5 s or 16 MiB | how often the slot is moved over it |

use std::sync::Arc;

use sqlx::{PgPool, Postgres, Transaction};

use crate::error::Error;
use crate::event::{Event, EventId};
use crate::outbox::{DEFAULT_MAX_EVENT_BYTES, Wake, all_traced, check, events_of_a_statement};
use crate::relay::connection::Lent;
use crate::relay::{OnRefusal, RelayBuilder};
use crate::sink::Sink;
use crate::trace::{TraceContext, TraceSource};
use crate::wal::name::SlotName;

mod content;
mod error;
mod fault;
mod log;
mod lsn;
mod name;
mod pgoutput;
mod progress;
mod reading;
mod session;
mod slot;

pub use self::error::WalError;
pub use self::log::WalLog;
pub use self::lsn::Lsn;
pub use self::slot::{Danger, WalLag, WalStatus};

const APPEND_ALL: &str = include_str!("../sql/postgres/wal/append_all.sql");
const AHEAD: u32 = 8_000;

/// An outbox in the write-ahead log. Its name is that of the replication slot and the publication, and the prefix of
/// its messages; a server has each slot's name once, over all its databases.
#[derive(Debug, Clone)]
pub struct WalOutbox {
    name: SlotName,
    max_event_bytes: usize,
    trace: Option<TraceSource>,
    wake: Wake,
    skipped: Vec<Lsn>,
}

impl WalOutbox {
    /// An outbox called `name`: 1 to 63 lower-case letters, digits and underscores, not beginning with a digit.
    ///
    /// # Errors
    /// [`WalError::Name`].
    pub fn new(name: &str) -> Result<Self, WalError> {
        let (name, skipped) = (SlotName::new(name)?, Vec::new());
        Ok(Self { name, max_event_bytes: DEFAULT_MAX_EVENT_BYTES, trace: None, wake: Wake::default(), skipped })
    }

    /// Sets the largest event that is taken, in bytes of key, value and headers. Keep it below the topic's own limit.
    #[must_use]
    pub fn max_event_bytes(mut self, max_event_bytes: usize) -> Self {
        self.max_event_bytes = max_event_bytes;
        self
    }

    /// Says where the trace of an event comes from; see [`Outbox::trace_context`](crate::Outbox::trace_context).
    #[must_use]
    pub fn trace_context(mut self, current: impl Fn() -> Option<TraceContext> + Send + Sync + 'static) -> Self {
        self.trace = Some(TraceSource(Arc::new(current)));
        self
    }

    /// Passes over messages that are no events ([`WalError::Malformed`] says where), once somebody has looked at them.
    /// They are never published.
    #[must_use]
    pub fn skipping(mut self, messages: impl IntoIterator<Item = Lsn>) -> Self {
        self.skipped.extend(messages);
        self
    }

    /// Makes what is not there yet: the SQL functions, an empty publication, the slot. Events appended before are not
    /// kept. It may be run again, but not by two at a time.
    ///
    /// It waits until every transaction that is writing anywhere in the cluster has ended: decoding begins only there.
    /// The role needs `REPLICATION`, and `CREATE` on the database and in its schema.
    ///
    /// # Errors
    /// [`WalError::WalLevel`], [`WalError::NoSlotLeft`]; and [`WalError::Missing`], [`WalError::Foreign`],
    /// [`WalError::Lost`], [`WalError::Publication`] for a slot that was there and cannot be read.
    ///
    /// # Cancel safety
    /// Dropped half-way, run it again: a slot that is being made when the session ends is not kept.
    pub async fn setup(&self, pool: &PgPool) -> Result<(), Error> {
        let mut connection = Lent::from(pool).await?;
        slot::setup(&mut connection, &self.name).await?;
        connection.give_back();
        Ok(())
    }

    /// Drops the slot and the publication: what is unpublished is lost, the server need not keep its log any more, and
    /// `append` refuses events. The SQL functions stay; they are the same for every outbox. Without a slot it does
    /// nothing.
    ///
    /// # Errors
    /// [`WalError::Busy`] while a relay reads the slot.
    ///
    /// # Cancel safety
    /// Dropped half-way, run it again.
    pub async fn teardown(&self, pool: &PgPool) -> Result<(), Error> {
        let mut connection = Lent::from(pool).await?;
        slot::teardown(&mut connection, &self.name).await?;
        connection.give_back();
        Ok(())
    }

    /// How far the slot is behind, and what it is in danger of. Worth an alarm: `unpublished_bytes` that grows, and any
    /// status but [`WalStatus::Reserved`].
    ///
    /// # Errors
    /// As [`setup`](Self::setup) for a slot that cannot be read; one that is lost is told by its status.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn lag(&self, pool: &PgPool) -> Result<WalLag, Error> {
        let mut connection = Lent::from(pool).await?;
        let state = slot::State::read(&mut connection, &self.name).await?;
        connection.give_back();
        Ok(state.lag(&self.name)?)
    }

    /// Appends an event to the transaction. It leaves if and only if the transaction commits; a savepoint that is
    /// rolled back takes its events with it.
    ///
    /// # Errors
    /// [`Error::EventTooLarge`], [`Error::Topic`], [`Error::Header`] and [`Error::Partition`] before any SQL; [`WalError::Missing`] when
    /// no slot of this name in this database keeps the event: it would be lost, so roll back. [`Error::Database`] as
    /// any statement.
    ///
    /// # Cancel safety
    /// As any statement: dropped half-way, roll the transaction back.
    pub async fn append(&self, tx: &mut Transaction<'_, Postgres>, event: Event) -> Result<EventId, Error> {
        self.append_all(tx, std::slice::from_ref(&event)).await?;
        Ok(event.id())
    }

    /// Appends many events to the transaction, as if [`append`](Self::append) had been called for one after the other.
    /// Up to 1,000 events, and 4 MiB of them, are one statement.
    ///
    /// # Errors
    /// As [`append`](Self::append); what can be refused before any SQL is, for all of them.
    ///
    /// # Cancel safety
    /// As any statement: dropped half-way, roll the transaction back.
    pub async fn append_all(&self, tx: &mut Transaction<'_, Postgres>, events: &[Event]) -> Result<(), Error> {
        let events = all_traced(self.trace.as_ref(), events);
        events.iter().try_for_each(|event| check(event, self.max_event_bytes))?;
        let mut rest = &events[..];
        while !rest.is_empty() {
            let (statement, after) = rest.split_at(events_of_a_statement(rest));
            self.append_together(tx, statement).await?;
            rest = after;
        }
        Ok(())
    }

    async fn append_together(&self, tx: &mut Transaction<'_, Postgres>, events: &[Event]) -> Result<(), Error> {
        let contents: Option<Vec<Vec<u8>>> = events.iter().map(content::encode).collect();
        let contents = contents.ok_or(WalError::TooLarge)?;
        let append = sqlx::query_scalar::<_, i64>(APPEND_ALL).bind(self.name.as_str()).bind(&contents);
        let written = append.fetch_one(&mut **tx).await.map_err(Error::database::<Postgres>)?;
        if usize::try_from(written) == Ok(events.len()) {
            Ok(())
        } else {
            Err(WalError::Missing { slot: self.name.as_str().to_owned() }.into())
        }
    }

    /// The signal that spares a relay of the same process the wait for its next poll; see [`Outbox::wake`](crate::Outbox::wake).
    #[must_use]
    pub fn wake(&self) -> Wake {
        self.wake.clone()
    }

    /// A relay from this outbox to `sink`, which ends at an event that the sink refuses for good ([`OnRefusal::Halt`]):
    /// there is no table to park it in. ([`WalError::NoParking`] under another policy.)
    ///
    /// It keeps two connections of the pool, which must lead to the server itself,
    /// or through a pooler that keeps sessions.
    pub fn relay<S: Sink>(&self, pool: &PgPool, sink: S) -> RelayBuilder<WalLog, S> {
        let enough_connections = pool.options().get_max_connections() >= 2;
        // One shard has to keep the sink as busy as the sixteen of the tables.
        RelayBuilder::over(WalLog::new(pool, &self.name, &self.skipped), sink, enough_connections)
            .ahead(AHEAD)
            .on_refusal(OnRefusal::Halt)
    }
}

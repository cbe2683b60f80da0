//! `append`, inside the business transaction.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use leastlock_core::Statement;
use sqlx::{Pool, Transaction};
use tokio::sync::Notify;

use crate::error::Error;
use crate::event::{Event, EventId};
use crate::shard::Shards;
use crate::sql::OutboxSql;
use crate::strict::lock_keys;
use crate::trace::{TRACEPARENT, TraceContext, TraceSource};

/// Kafka's default limit of a record (`message.max.bytes` = 1,048,588) with room for the headers that the relay adds.
pub(crate) const DEFAULT_MAX_EVENT_BYTES: usize = 1_000_000;
/// The constraint that keeps events out of shards whose place others have taken (`sql/postgres/checked_shards.sql`).
const RETIRED: &str = "leastlock_outbox_active";
/// Keeps a statement to a size that no server minds.
const EVENTS_A_STATEMENT: usize = 1_000;
/// As that, in bytes of key, value and headers: a statement takes twice as many where they travel as text, and MariaDB takes 16 MiB
/// (`max_allowed_packet`) unless it is set up otherwise. A larger event has a statement of its own.
const BYTES_A_STATEMENT: usize = 4 * 1024 * 1024;

/// Appends events to the log of a database.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `max_event_bytes` | 1,000,000 | of key, value and headers |
/// | `strict` | off | a lock per key before each append |
/// | `trace_context` | none | where the trace of an event comes from |
///
/// # The order of a key
/// Events of a key leave in the order of their appends, and that is the order of their commits if their writers take turns.
/// There are two ways to have that:
///
/// - By default each writer *first* takes the lock of what the key stands for, and *then* appends: it updates the row, or locks it
///   `FOR NO KEY UPDATE` or stronger. Share and foreign-key locks let several writers in. A writer that appends first and locks
///   later may commit after another whose event has a higher place.
/// - In [strict mode](Self::strict) the outbox takes a lock of its own for the key before the append.
#[derive(Debug, Clone)]
pub struct Outbox {
    /// Which shards events are appended to; 0 when that has to be read anew.
    shards: Arc<AtomicU32>,
    max_event_bytes: usize,
    is_strict: bool,
    trace: Option<TraceSource>,
    wake: Wake,
}

impl Outbox {
    /// Opens the outbox of a database whose [`MIGRATIONS`](crate::MIGRATIONS) have run.
    ///
    /// # Errors
    /// [`Error::Database`] when the tables are not there, [`Error::NoShards`] when they are empty.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn open<DB: OutboxSql>(pool: &Pool<DB>) -> Result<Self, Error> {
        let mut connection = pool.acquire().await.map_err(Error::database::<DB>)?;
        let shards = Shards::read::<DB>(&mut connection).await?;
        Ok(Self {
            shards: Arc::new(AtomicU32::new(shards.packed())),
            max_event_bytes: DEFAULT_MAX_EVENT_BYTES,
            is_strict: false,
            trace: None,
            wake: Wake::default(),
        })
    }

    /// Sets the largest event that is taken, in bytes of key, value and headers. Keep it below the topic's own limit.
    #[must_use]
    pub fn max_event_bytes(mut self, max_event_bytes: usize) -> Self {
        self.max_event_bytes = max_event_bytes;
        self
    }

    /// Takes a lock for each (topic, key) before its events are appended, and holds it to the end of the transaction. So events of a
    /// key leave in commit order whatever else their writers lock, and when: the second writer of a key waits at its append until
    /// the first has ended. Events without a key are not locked.
    ///
    /// - *Every* writer of the topic must be strict, those in other languages too: who is not does not wait. This sets it for one
    ///   value and its later clones, so `outbox.clone().strict()` makes one for the topics that are strict, and `outbox` stays.
    /// - It is not needed where the key is the row that is updated; it is where the key is a parent (a customer) of rows that are
    ///   inserted, unless the parent is locked.
    /// - A transaction that locks a row and appends, and one that appends and locks that row, deadlock; the database ends one
    ///   of them with a retryable error. So do two that append to the same keys by several calls in different orders;
    ///   [`append_all`](Self::append_all) locks in one order for all.
    /// - Each append costs a round trip more.
    ///
    /// PostgreSQL: an advisory lock on 64 bits of a hash, in the same space as the application's own advisory locks; two keys of one hash
    /// wait for each other. MariaDB and MySQL: one of 4,096 rows, so two keys in 4,096 wait for each other; a savepoint that is rolled back
    /// does not free it. SQLite has one writer at a time, so there nothing is done.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// Says where the trace of an event comes from: `current` is called at each append, in the span that appends. What it answers is
    /// stored with the event and goes out as its headers `traceparent` and `tracestate`, unless the event has a `traceparent` already.
    /// The module [`trace`](crate::trace) shows it for `tracing-opentelemetry`.
    #[must_use]
    pub fn trace_context(mut self, current: impl Fn() -> Option<TraceContext> + Send + Sync + 'static) -> Self {
        self.trace = Some(TraceSource(Arc::new(current)));
        self
    }

    /// Appends an event to the transaction. It leaves if and only if the transaction commits; a savepoint that is rolled back
    /// takes its events with it.
    ///
    /// For the order of a key, update the key's row (or lock it `FOR NO KEY UPDATE`, on MariaDB `FOR UPDATE`, or stronger) before
    /// appending, or be [strict](Self::strict).
    ///
    /// Other languages append by `SELECT leastlock_outbox_append(topic, key, value, …)`, a function that the migrations make on
    /// PostgreSQL, or by the procedure of that name on MariaDB and MySQL (`CALL`, all seven arguments). Both check the event as this
    /// does; the guide's chapter on the outbox has their arguments, and the plain `INSERT`s.
    ///
    /// # Errors
    /// [`Error::EventTooLarge`], [`Error::Topic`], [`Error::Header`] and [`Error::Partition`] before any SQL; [`Error::Database`] as any
    /// statement.
    ///
    /// # Cancel safety
    /// As any statement: dropped half-way, roll the transaction back.
    pub async fn append<DB: OutboxSql>(&self, tx: &mut Transaction<'_, DB>, event: Event) -> Result<EventId, Error> {
        let event = match self.traced() {
            Some(context) if !event.headers.contains(TRACEPARENT) => event.trace_context(context),
            _ => event,
        };
        self.check(&event)?;
        if self.is_strict {
            lock_keys::<DB>(tx, std::iter::once(&event)).await?;
        }
        let shards = self.shards::<DB>(tx).await?;
        let appended = append_one::<DB>(tx, shards.of(&event), &event).await;
        appended.map_err(|source| self.refused::<DB>(source))?;
        Ok(event.id)
    }

    /// Appends many events to the transaction, as if [`append`](Self::append) had been called for one after the other: events of
    /// a key keep their order. On PostgreSQL up to 1,000 events, and 4 MiB of them, are one statement. There is no limit on the number
    /// of events, but in strict mode on that of different keys (1,000).
    ///
    /// In strict mode the locks of all keys are taken before the first append, in an order that all transactions share.
    ///
    /// # Errors
    /// As [`append`](Self::append), and [`Error::TooManyKeys`]; what can be refused before any SQL is, for all of them.
    ///
    /// # Cancel safety
    /// As any statement: dropped half-way, roll the transaction back.
    pub async fn append_all<DB: OutboxSql>(&self, tx: &mut Transaction<'_, DB>, events: &[Event]) -> Result<(), Error> {
        let events = self.all_traced(events);
        events.iter().try_for_each(|event| self.check(event))?;
        if self.is_strict {
            lock_keys::<DB>(tx, events.iter()).await?;
        }
        self.append_unchecked(tx, &events).await
    }

    /// Appends events as they are: copies of such as were taken already.
    pub(crate) async fn append_unchecked<DB: OutboxSql>(
        &self,
        tx: &mut Transaction<'_, DB>,
        events: &[Event],
    ) -> Result<(), Error> {
        let shards = self.shards::<DB>(tx).await?;
        let mut rest = events;
        while !rest.is_empty() {
            let (statement, after) = rest.split_at(events_of_a_statement(rest));
            let sharded: Vec<_> = statement.iter().map(|event| (shards.of(event), event)).collect();
            DB::append_all(tx, &sharded).await.map_err(|source| self.refused::<DB>(source))?;
            rest = after;
        }
        Ok(())
    }

    /// The signal that spares a relay of the same process the wait for its next poll. It has two halves, and does nothing by
    /// itself:
    ///
    /// - the relay listens: `Relay::builder(..).woken_by(outbox.wake())`;
    /// - after each commit, `outbox.wake().notify()`.
    ///
    /// Clones of this outbox share the signal; one opened anew has another.
    #[must_use]
    pub fn wake(&self) -> Wake {
        self.wake.clone()
    }

    fn traced(&self) -> Option<TraceContext> {
        self.trace.as_ref().and_then(|trace| trace.0())
    }

    /// The events as they are, or copies with the trace that they belong to.
    fn all_traced<'e>(&self, events: &'e [Event]) -> Cow<'e, [Event]> {
        all_traced(self.trace.as_ref(), events)
    }

    /// The shards to append to: as they are known, unless their number was raised since.
    async fn shards<DB: OutboxSql>(&self, tx: &mut Transaction<'_, DB>) -> Result<Shards, Error> {
        if let Some(known) = Shards::unpacked(self.shards.load(Relaxed)) {
            return Ok(known);
        }
        let shards = Shards::read::<DB>(tx).await?;
        self.shards.store(shards.packed(), Relaxed);
        Ok(shards)
    }

    /// What a refused append means. A shard that takes no more events says that there are others now.
    fn refused<DB: OutboxSql>(&self, source: sqlx::Error) -> Error {
        let constraint = source.as_database_error().and_then(sqlx::error::DatabaseError::constraint);
        if constraint == Some(RETIRED) {
            self.shards.store(0, Relaxed);
            return Error::ShardsRaised;
        }
        Error::database::<DB>(source)
    }

    fn check(&self, event: &Event) -> Result<(), Error> {
        check(event, self.max_event_bytes)
    }
}

/// The events as they are, or copies with the trace that they belong to.
pub(crate) fn all_traced<'e>(trace: Option<&TraceSource>, events: &'e [Event]) -> Cow<'e, [Event]> {
    let Some(context) = trace.and_then(|trace| trace.0()) else { return Cow::Borrowed(events) };
    let traced = |event: &Event| {
        let has_own = event.headers.contains(TRACEPARENT);
        if has_own { event.clone() } else { event.clone().trace_context(context.clone()) }
    };
    events.iter().map(traced).collect()
}

/// Refuses an event that is over the limit, or that no broker takes.
pub(crate) fn check(event: &Event, max_event_bytes: usize) -> Result<(), Error> {
    let bytes = event.bytes_in_all();
    if bytes > max_event_bytes {
        return Err(Error::EventTooLarge { bytes, limit: max_event_bytes });
    }
    event.check()
}

/// How many of the events, one at least, go into one statement.
pub(crate) fn events_of_a_statement(events: &[Event]) -> usize {
    let mut bytes = 0;
    let fits = |event: &&Event| {
        bytes += event.bytes_in_all();
        bytes <= BYTES_A_STATEMENT
    };
    events.iter().take(EVENTS_A_STATEMENT).take_while(fits).count().max(1)
}

pub(crate) async fn append_one<DB: OutboxSql>(
    connection: &mut DB::Connection,
    shard: u16,
    event: &Event,
) -> Result<(), sqlx::Error> {
    Statement::new(DB::APPEND)
        .bind(i64::from(shard))
        .bind(&event.id.to_string())
        .bind(&event.topic)
        .bind(event.key.as_deref())
        .bind(event.value.as_deref())
        .bind(&event.headers.to_stored())
        .bind(event.partition.map(i64::from))
        .execute::<DB>(connection)
        .await
        .map(drop)
}

/// The in-process signal from a committed transaction to the relay. Losing it costs a poll interval, never an event.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Notify>);

impl Wake {
    /// Says that something was committed. Call it after the commit; before, the relay finds nothing.
    pub fn notify(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn notified(&self) {
        self.0.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_bounds_in_events_and_in_bytes_and_one_event_at_least() {
        let events = |count: usize, bytes: usize| vec![Event::new("t", "k").bytes(vec![0; bytes]); count];
        assert_eq!(events_of_a_statement(&events(2_500, 10)), 1_000);
        assert_eq!(events_of_a_statement(&events(3, 10)), 3);
        // A byte of each is its key.
        assert_eq!(events_of_a_statement(&events(10, 1024 * 1024 - 1)), 4);
        assert_eq!(events_of_a_statement(&events(10, 1024 * 1024)), 3);
        assert_eq!(events_of_a_statement(&events(2, BYTES_A_STATEMENT)), 1);
    }
}

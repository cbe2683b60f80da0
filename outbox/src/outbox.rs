//! `append`, inside the business transaction.

use std::sync::Arc;

use leastlock_core::Statement;
use sqlx::{Pool, Transaction};
use tokio::sync::Notify;

use crate::error::Error;
use crate::event::{Event, EventId};
use crate::shard::shard_of;
use crate::sql::OutboxSql;

/// Kafka's default limit of a record (`message.max.bytes` = 1,048,588) with room for the headers that the relay adds.
const DEFAULT_MAX_EVENT_BYTES: usize = 1_000_000;
/// Kafka's limit of a topic name.
const MAX_TOPIC_CHARS: usize = 249;
/// Keeps a statement's arrays to a size that no server minds.
const EVENTS_A_STATEMENT: usize = 1_000;

/// Appends events to the log of a database.
///
/// | setting | default |
/// |---|---|
/// | `max_event_bytes` (key, value and headers) | 1,000,000 |
#[derive(Debug, Clone)]
pub struct Outbox {
    shards: u16,
    max_event_bytes: usize,
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
        let count = Statement::new(DB::SHARDS).fetch_one::<DB>(&mut connection).await.and_then(|row| row.int(0));
        match u16::try_from(count.map_err(Error::database::<DB>)?) {
            Ok(shards @ 1..) => Ok(Self { shards, max_event_bytes: DEFAULT_MAX_EVENT_BYTES, wake: Wake::default() }),
            _ => Err(Error::NoShards),
        }
    }

    /// Sets the largest event that is taken, in bytes of key, value and headers. Keep it below the topic's own limit.
    #[must_use]
    pub fn max_event_bytes(mut self, max_event_bytes: usize) -> Self {
        self.max_event_bytes = max_event_bytes;
        self
    }

    /// Appends an event to the transaction. It leaves if and only if the transaction commits; a savepoint that is rolled back
    /// takes its events with it.
    ///
    /// For the order of a key, update the key's row (or lock it `FOR NO KEY UPDATE`, on MariaDB `FOR UPDATE`, or stronger) before appending.
    ///
    /// # Errors
    /// [`Error::EventTooLarge`], [`Error::Topic`] and [`Error::Partition`] before any SQL; [`Error::Database`] as any statement.
    ///
    /// # Cancel safety
    /// As any statement: dropped half-way, roll the transaction back.
    pub async fn append<DB: OutboxSql>(&self, tx: &mut Transaction<'_, DB>, event: Event) -> Result<EventId, Error> {
        self.check(&event)?;
        append_one::<DB>(tx, self.shard::<DB>(&event), &event).await.map_err(Error::database::<DB>)?;
        Ok(event.id)
    }

    /// Appends many events to the transaction, as if [`append`](Self::append) had been called for one after the other: events of
    /// a key keep their order. On PostgreSQL 1,000 events are one statement.
    ///
    /// # Errors
    /// As [`append`](Self::append); what can be refused before any SQL is, for all of them.
    ///
    /// # Cancel safety
    /// As any statement: dropped half-way, roll the transaction back.
    pub async fn append_all<DB: OutboxSql>(&self, tx: &mut Transaction<'_, DB>, events: &[Event]) -> Result<(), Error> {
        events.iter().try_for_each(|event| self.check(event))?;
        for events in events.chunks(EVENTS_A_STATEMENT) {
            let sharded: Vec<_> = events.iter().map(|event| (self.shard::<DB>(event), event)).collect();
            DB::append_all(tx, &sharded).await.map_err(Error::database::<DB>)?;
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

    fn shard<DB: OutboxSql>(&self, event: &Event) -> u16 {
        shard_of(event, if DB::SHARDED { self.shards } else { 1 })
    }

    fn check(&self, event: &Event) -> Result<(), Error> {
        let bytes = event.bytes_in_all();
        if bytes > self.max_event_bytes {
            return Err(Error::EventTooLarge { bytes, limit: self.max_event_bytes });
        }
        let named = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-');
        let topic = &event.topic;
        if topic.is_empty() || topic.len() > MAX_TOPIC_CHARS || !topic.chars().all(named) {
            return Err(Error::Topic { topic: topic.clone() });
        }
        if let Some(partition @ ..0) = event.partition {
            return Err(Error::Partition { partition });
        }
        Ok(())
    }
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

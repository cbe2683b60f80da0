//! Where events go.

use std::future::Future;

use leastlock_core::{Dialect, Row};

use crate::error::Error;
use crate::event::EventId;
use crate::headers::Headers;

mod batch;
#[cfg(feature = "kafka")]
mod headers;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod memory;

pub use batch::{Batch, Receipt};
pub(crate) use batch::{Report, Reports};

/// The header that carries the event id; that of a [`CloudEvent`](crate::CloudEvent) is in `ce_id`.
pub const EVENT_ID_HEADER: &str = "leastlock_event_id";

/// An event as the relay read it from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedEvent {
    /// The shard it is in.
    pub shard: i64,
    /// Its number in the shard.
    pub id: i64,
    /// Its id, the same on every repeat.
    pub event_id: EventId,
    /// Where it goes.
    pub topic: String,
    /// Whose order it keeps.
    pub key: Option<Vec<u8>>,
    /// What it says; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// Its headers, without the event id.
    pub headers: Headers,
    /// The partition, if the event named one.
    pub partition: Option<i32>,
    /// How old it was when it was read, in milliseconds, by the database's clock.
    pub age_ms: i64,
    /// Why it can be sent by nobody: its headers cannot be read, and the event has none here.
    pub(crate) unreadable: Option<Box<str>>,
}

impl LoggedEvent {
    /// Bytes of key, value, topic and headers: about what it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let part = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        self.topic.len() + part(&self.key) + part(&self.value) + self.headers.bytes()
    }

    /// The event in a row whose columns, from `first` on, are id, event id, topic, key, value, headers, partition, age.
    ///
    /// # Errors
    /// [`Error::Malformed`] names the row that cannot be read.
    pub fn from_row<DB: Dialect>(row: &Row<DB>, shard: i64, first: usize) -> Result<Self, Error> {
        let event = Self::found_in::<DB>(row, shard, first)?;
        match event.unreadable {
            Some(reason) => Err(Error::Malformed { shard, id: event.id, reason: reason.into() }),
            None => Ok(event),
        }
    }

    /// The same for a relay: it parks an event whose headers cannot be read, and goes on.
    pub(crate) fn found_in<DB: Dialect>(row: &Row<DB>, shard: i64, first: usize) -> Result<Self, Error> {
        let database = Error::database::<DB>;
        let id = row.int(first).map_err(database)?;
        let event_id = row.text(first + 1).map_err(database)?;
        let event_id =
            EventId::parse(&event_id).map_err(|error| Error::Malformed { shard, id, reason: error.to_string() })?;
        Self::with_id(row, shard, first, id, event_id)
    }

    /// The same, of a row whose event id was read already.
    pub(crate) fn with_id<DB: Dialect>(
        row: &Row<DB>,
        shard: i64,
        first: usize,
        id: i64,
        event_id: EventId,
    ) -> Result<Self, Error> {
        let database = Error::database::<DB>;
        let malformed = |reason: String| Error::Malformed { shard, id, reason };
        // A read brings a large event without its value and headers at first.
        let stored = row.optional_text(first + 5).map_err(database)?;
        let headers = stored.map_or_else(|| Ok(Headers::default()), |stored| Headers::from_stored(&stored));
        let unreadable = headers.as_ref().err().map(|error| format!("its headers cannot be read: {error}").into());
        let partition = row.optional_int(first + 6).map_err(database)?.map(i32::try_from).transpose();
        Ok(Self {
            shard,
            id,
            event_id,
            topic: row.text(first + 2).map_err(database)?,
            key: row.optional_bytes(first + 3).map_err(database)?,
            value: row.optional_bytes(first + 4).map_err(database)?,
            headers: headers.unwrap_or_default(),
            partition: partition.map_err(|error| malformed(error.to_string()))?,
            age_ms: row.int(first + 7).map_err(database)?,
            unreadable,
        })
    }
}

/// Somewhere that events can be published to.
///
/// # Contract
/// - [`send`](Self::send) is given one batch at a time, and the batches of a shard in the shard's order. It hands the events over
///   in order and answers for each by its receipt, then or later; it need not wait for earlier ones. It may wait for room, as long
///   as an outage lasts: the relay bounds it by its lease and drops the future.
/// - `published` means that the event is durable at the other side: an implementation that lost track answers
///   [`SendError::Unknown`], or drops the receipt.
/// - Events of one key become visible at the other side in the order in which they were handed over.
/// - After an [`SendError::Unknown`] the relay abandons everything in flight and sends again from the first event that has no
///   answer. After a [`SendError::Permanent`] or a [`SendError::NotSent`] it waits for all that is in flight, of every shard, and
///   sends what failed again, one event at a time, with nothing else in flight. What is answered `Permanent` then is parked. Where
///   nothing is answered for the length of a lease it abandons what is in flight, and sends that again afterwards.
///
/// ```
/// use leastlock_outbox::{Batch, LoggedEvent, Refusal, Sink};
///
/// struct Printed;
///
/// impl Sink for Printed {
///     async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
///         Vec::new()
///     }
///
///     async fn send(&self, batch: Batch) {
///         batch.events().iter().for_each(|event| println!("{} {:?}", event.topic, event.value));
///         batch.published();
///     }
///
///     fn abandon(&self) {}
/// }
/// ```
pub trait Sink: Send + Sync + 'static {
    /// Which of these events can never be sent as they are, as far as that is known without sending them; usually none. Asked
    /// for every event, so what has to be fetched is kept.
    fn check(&self, events: &[LoggedEvent]) -> impl Future<Output = Vec<Refusal>> + Send;

    /// Hands a batch over.
    fn send(&self, batch: Batch) -> impl Future<Output = ()> + Send;

    /// Forgets everything in flight: another relay may own these events now. What was sent may still land. The next `send`
    /// starts afresh.
    fn abandon(&self);
}

/// An event that can never be sent as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its place among the events asked for.
    pub index: usize,
    /// Why.
    pub reason: String,
}

/// Why an event was not published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The event can never be sent as it is.
    #[error("{reason}")]
    Permanent {
        /// What the other side said.
        reason: String,
    },
    /// It may have been sent, or not; sending it again is safe and needed.
    #[error("{reason}")]
    Unknown {
        /// What happened.
        reason: String,
    },
    /// It was certainly not published, because another event was refused. It says nothing against this one, which is sent again.
    #[error("{reason}")]
    NotSent {
        /// Why not.
        reason: String,
    },
}

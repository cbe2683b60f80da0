//! Where events go.

use std::future::Future;

use leastlock_core::{Dialect, Row};

use crate::error::Error;
use crate::event::EventId;
use crate::headers::Headers;

#[cfg(feature = "kafka")]
pub mod kafka;
pub mod memory;

/// The header that carries the event id.
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
}

impl LoggedEvent {
    /// The event in a row whose columns, from `first` on, are id, event id, topic, key, value, headers, partition, age.
    ///
    /// # Errors
    /// [`Error::Malformed`] names the row that cannot be read.
    pub fn from_row<DB: Dialect>(row: &Row<DB>, shard: i64, first: usize) -> Result<Self, Error> {
        let database = Error::database::<DB>;
        let id = row.int(first).map_err(database)?;
        let malformed = |reason: String| Error::Malformed { shard, id, reason };
        let event_id = row.text(first + 1).map_err(database)?;
        let headers = row.text(first + 5).map_err(database)?;
        let partition = row.optional_int(first + 6).map_err(database)?.map(i32::try_from).transpose();
        Ok(Self {
            shard,
            id,
            event_id: EventId::parse(&event_id).map_err(|error| malformed(error.to_string()))?,
            topic: row.text(first + 2).map_err(database)?,
            key: row.optional_bytes(first + 3).map_err(database)?,
            value: row.optional_bytes(first + 4).map_err(database)?,
            headers: Headers::from_stored(&headers).map_err(|error| malformed(error.to_string()))?,
            partition: partition.map_err(|error| malformed(error.to_string()))?,
            age_ms: row.int(first + 7).map_err(database)?,
        })
    }
}

/// Somewhere that events can be published to.
///
/// # Contract
/// - [`publish`](Self::publish) hands the events over in order and answers one result an event, in the same order. `Ok`
///   means that the event is durable at the other side: an implementation that lost track answers an error.
/// - Events of one key become visible at the other side in the order given. After an event that was refused before it was
///   sent, no later one is sent.
/// - It may wait as long as an outage lasts: the relay bounds it by its lease and drops the future. Events still in flight
///   then may land later.
/// - [`abandon`](Self::abandon) forgets everything in flight; the next `publish` starts afresh.
pub trait Sink: Send + Sync + 'static {
    /// Publishes events.
    fn publish(&self, events: &[LoggedEvent]) -> impl Future<Output = Vec<Result<(), SendError>>> + Send;

    /// Forgets what is in flight: another relay may own these events now.
    fn abandon(&self);
}

/// Why an event was not published.
#[derive(Debug, thiserror::Error)]
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
}

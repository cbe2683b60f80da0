//! What is listed of parked events, and of what operators did.

use std::time::Duration;

use leastlock_core::{Dialect, Row, Statement};

use crate::error::Error;
use crate::event::EventId;
use crate::sql::OutboxSql;

/// Which parked events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    topic: Option<String>,
    key: Option<Vec<u8>>,
    refused: bool,
}

impl Filter {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Those of a topic.
    #[must_use]
    pub fn topic(topic: impl Into<String>) -> Self {
        Self { topic: Some(topic.into()), ..Self::default() }
    }

    /// Those of a key of a topic.
    #[must_use]
    pub fn key(topic: impl Into<String>, key: impl Into<Vec<u8>>) -> Self {
        Self { key: Some(key.into()), ..Self::topic(topic) }
    }

    /// Of these, only the ones that the sink itself refused: not those that are parked behind another.
    #[must_use]
    pub fn refused(self) -> Self {
        Self { refused: true, ..self }
    }

    pub(super) fn bind_to<'a>(&'a self, statement: Statement<'a>) -> Statement<'a> {
        let (topic, key) = (self.topic.as_deref(), self.key.as_deref());
        statement.bind(topic).bind(topic).bind(key).bind(key).bind(i64::from(self.refused))
    }
}

/// A place in the list, for the next page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    shard: i64,
    id: i64,
}

impl Place {
    pub(super) fn bind_to(after: Option<Self>, statement: Statement<'_>) -> Statement<'_> {
        let Self { shard, id } = after.unwrap_or(Self { shard: -1, id: 0 });
        statement.bind(shard).bind(id)
    }
}

/// A parked event, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParkedEvent {
    /// Where it stands in the list.
    pub place: Place,
    /// Its id, which consumers know as `leastlock_event_id`; that of a CloudEvent as `ce_id`, while their inbox has an id made of that
    /// and of its source ([`EventId::of_record`]).
    pub event_id: EventId,
    /// Where it was to go.
    pub topic: String,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Bytes of its value; `None` is a tombstone.
    pub value_bytes: Option<u64>,
    /// What the sink said, or that it stands behind another event of its key.
    pub reason: String,
    /// How often it was refused after an operator had asked for another try.
    pub attempts: u64,
    /// Whether the sink itself refused it.
    pub refused: bool,
    /// Whether later events of its key are parked behind it. Not so for one that is parked alone.
    pub blocks: bool,
    /// Whether a relay is to send it now.
    pub under_way: bool,
    /// Since its append, by the database's clock.
    pub age: Duration,
    /// Since it was parked, by the database's clock.
    pub parked_for: Duration,
}

impl ParkedEvent {
    pub(super) fn from_row<DB: OutboxSql>(row: &Row<DB>) -> Result<Self, Error> {
        let database = Error::database::<DB>;
        let read = || {
            let event_id = row.text(2)?;
            Ok(Self {
                place: Place { shard: row.int(0)?, id: row.int(1)? },
                event_id: EventId::parse(&event_id).map_err(|error| sqlx::Error::Decode(error.into()))?,
                topic: row.text(3)?,
                key: row.optional_bytes(4)?,
                value_bytes: row.optional_int(5)?.map(i64::unsigned_abs),
                reason: row.text(6)?,
                attempts: row.int(7)?.unsigned_abs(),
                refused: row.int(8)? != 0,
                blocks: row.int(9)? != 0,
                under_way: row.int(10)? != 0,
                age: since(row.int(11)?),
                parked_for: since(row.int(12)?),
            })
        };
        read().map_err(database)
    }
}

/// How much is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParkedCount {
    /// Events.
    pub events: u64,
    /// Of these, the ones that the sink itself refused.
    pub refused: u64,
    /// Keys that are blocked.
    pub keys: u64,
    /// How long ago the oldest of them was parked; `None` if there is none.
    pub oldest: Option<Duration>,
}

impl ParkedCount {
    pub(super) fn from_row<DB: Dialect>(row: &Row<DB>) -> Result<Self, sqlx::Error> {
        let count = |column| Ok::<_, sqlx::Error>(row.int(column)?.unsigned_abs());
        let oldest = row.optional_int(3)?.map(since);
        Ok(Self { events: count(0)?, refused: count(1)?, keys: count(2)?, oldest })
    }
}

/// What an operator did: a row of the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Action {
    /// The row's number; later ones are higher.
    pub id: i64,
    /// How long ago, by the database's clock.
    pub ago: Duration,
    /// Who.
    pub actor: String,
    /// What: `retry`, `skip` or `release`.
    pub action: String,
    /// Why.
    pub reason: String,
    /// The topic.
    pub topic: String,
    /// The key, if the request was for one or for an event of it.
    pub key: Option<Vec<u8>>,
    /// The event, if the request was for one.
    pub event_id: Option<EventId>,
    /// Of how many queues: keys, and events parked alone.
    pub queues: u64,
}

impl Action {
    pub(super) fn from_row<DB: OutboxSql>(row: &Row<DB>) -> Result<Self, Error> {
        let read = || {
            let event_id = row.optional_text(7)?.map(|id| EventId::parse(&id)).transpose();
            Ok(Self {
                id: row.int(0)?,
                ago: since(row.int(1)?),
                actor: row.text(2)?,
                action: row.text(3)?,
                reason: row.text(4)?,
                topic: row.text(5)?,
                key: row.optional_bytes(6)?,
                event_id: event_id.map_err(|error| sqlx::Error::Decode(error.into()))?,
                queues: row.int(8)?.unsigned_abs(),
            })
        };
        read().map_err(Error::database::<DB>)
    }
}

/// A time below zero is a database clock that was stepped back.
fn since(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

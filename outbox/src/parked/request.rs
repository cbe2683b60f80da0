//! The steps of an operator's request, each inside its transaction.

use leastlock_core::Statement;

use crate::error::Error;
use crate::event::EventId;
use crate::sql::OutboxSql;

/// Longest name of who asks, and longest reason, in bytes: the audit keeps both whole.
const MAX_ACTOR_BYTES: usize = 255;
const MAX_REASON_BYTES: usize = 4000;

/// Who asks, and why.
pub(super) struct By<'a> {
    actor: &'a str,
    reason: &'a str,
}

impl<'a> By<'a> {
    pub(super) fn new(actor: &'a str, reason: &'a str) -> Result<Self, Error> {
        for (text, limit) in [(actor, MAX_ACTOR_BYTES), (reason, MAX_REASON_BYTES)] {
            if text.trim().is_empty() || text.len() > limit {
                return Err(Error::Unaccounted);
            }
        }
        Ok(Self { actor, reason })
    }
}

/// What is to become of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing, until somebody asks.
    Parked,
    /// It is sent from its head on; what is refused again blocks it again.
    Retrying,
    /// It is sent from its head on; what is refused again is set aside.
    Releasing,
}

impl State {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Retrying => "retrying",
            Self::Releasing => "releasing",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Parked, Self::Retrying, Self::Releasing].into_iter().find(|state| state.as_str() == name)
    }
}

/// Where an event is parked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) shard: i64,
    pub(super) id: i64,
    pub(super) queue: String,
}

pub(super) async fn find<DB: OutboxSql>(
    connection: &mut DB::Connection,
    event: EventId,
) -> Result<Option<Found>, Error> {
    let database = Error::database::<DB>;
    let id = event.to_string();
    let row = Statement::new(DB::FIND).bind(&id).fetch_optional::<DB>(connection).await.map_err(database)?;
    let found = row.map(|row| Ok(Found { shard: row.int(0)?, id: row.int(1)?, queue: row.text(2)? }));
    found.transpose().map_err(database)
}

/// A queue whose row is held to the end of the transaction.
#[derive(Debug)]
pub(super) struct Locked {
    pub(super) state: State,
    pub(super) topic: String,
    pub(super) key: Option<Vec<u8>>,
}

impl Locked {
    /// The queue, if it is there.
    pub(super) async fn lock<DB: OutboxSql>(
        connection: &mut DB::Connection,
        queue: &str,
    ) -> Result<Option<Self>, Error> {
        let database = Error::database::<DB>;
        let row = Statement::new(DB::LOCK).bind(queue).fetch_optional::<DB>(connection).await.map_err(database)?;
        let locked = |row: leastlock_core::Row<DB>| {
            let state = State::parse(&row.text(0)?).ok_or_else(|| sqlx::Error::Decode("an unknown state".into()))?;
            Ok(Self { state, topic: row.text(1)?, key: row.optional_bytes(2)? })
        };
        row.map(locked).transpose().map_err(database)
    }

    /// The event that leaves the queue next.
    pub(super) async fn first<DB: OutboxSql>(
        connection: &mut DB::Connection,
        queue: &str,
    ) -> Result<Option<(i64, EventId)>, Error> {
        let database = Error::database::<DB>;
        let row = Statement::new(DB::FIRST).bind(queue).fetch_optional::<DB>(connection).await.map_err(database)?;
        let Some(row) = row else { return Ok(None) };
        let (id, event) = (row.int(0).map_err(database)?, row.text(1).map_err(database)?);
        let event = EventId::parse(&event).map_err(|error| database(sqlx::Error::Decode(error.into())))?;
        Ok(Some((id, event)))
    }

    /// Writes who asked for what, for so many queues.
    pub(super) async fn audit<DB: OutboxSql>(
        &self,
        connection: &mut DB::Connection,
        by: &By<'_>,
        action: &str,
        event: Option<EventId>,
        queues: u64,
    ) -> Result<(), Error> {
        let event = event.map(|event| event.to_string());
        let audit = Statement::new(DB::AUDIT)
            .bind(by.actor)
            .bind(action)
            .bind(by.reason)
            .bind(&self.topic)
            .bind(self.key.as_deref())
            .bind(event.as_deref())
            .bind(i64::try_from(queues).unwrap_or(i64::MAX));
        audit.execute::<DB>(connection).await.map_err(Error::database::<DB>).map(drop)
    }
}

/// What is to become of a queue from now on.
pub(super) async fn ask<DB: OutboxSql>(
    connection: &mut DB::Connection,
    queue: &str,
    state: State,
) -> Result<(), Error> {
    let ask = Statement::new(DB::ASK).bind(state.as_str()).bind(queue);
    ask.execute::<DB>(connection).await.map_err(Error::database::<DB>).map(drop)
}

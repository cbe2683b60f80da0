//! Which events a consumer has seen: the other end of the outbox.
//!
//! The relay publishes at least once, so a consumer meets repeats. One whose effect is in a database absorbs them there: it marks
//! the event's id in the transaction of the effect. Either both are kept or neither, so an event whose handler failed is a first
//! again when it is redelivered.

use std::time::Duration;

use leastlock_core::{Engine, ErrorClass, Statement, begin, classify, commit};
use sqlx::{Pool, Transaction};

use crate::error::Error;
use crate::event::EventId;
use crate::relay::SettingError;

mod sql;

pub use sql::InboxSql;

const MAX_CONSUMER_BYTES: usize = 255;

/// Whether an event is new to a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "only a first may be handled"]
pub enum Arrival {
    /// Nobody has handled it: handle it, in the same transaction.
    FirstTime,
    /// It was handled, and what the handler did is committed: do nothing.
    Repeat,
}

/// Who consumes: what one has seen says nothing about another. 1 to 255 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConsumerName(String);

impl ConsumerName {
    /// A consumer of this name: of the effect, not of the process, so that all its instances have the same.
    ///
    /// # Errors
    /// [`SettingError`] when it is empty, longer than 255 bytes, or has a NUL, which PostgreSQL has no text for.
    pub fn new(name: impl Into<String>) -> Result<Self, SettingError> {
        let name = name.into();
        if name.is_empty() || name.len() > MAX_CONSUMER_BYTES || name.contains('\0') {
            return Err(SettingError { setting: "a consumer's name", bounds: "1 to 255 bytes without a NUL" });
        }
        Ok(Self(name))
    }
}

/// Marks events as seen, in the transaction of their effect.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `retention` | 14 days | how long a mark stays; longer than the longest replay |
///
/// The table of the marks, `leastlock_inbox`, is made by [`MIGRATIONS`](crate::MIGRATIONS), which have to run in the consumer's database.
///
/// A CloudEvent is marked under an id made of its source and its id ([`EventId::of_record`]), not under the event's own.
///
/// A mark must outlive every copy of its event: that is the topic's retention (Kafka's default is 7 days), plus the longest
/// that a relay may be down before it repeats what it had in flight, plus how far back an operator replays. An event that comes
/// again after its mark was swept is a first.
///
/// ```
/// use leastlock_outbox::{Arrival, ConsumerName, EventId, Inbox};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite://{}?mode=rwc", folder.path().join("ledger.sqlite").display());
/// # let pool = sqlx::SqlitePool::connect(&url).await?;
/// leastlock_outbox::MIGRATIONS.run(&pool).await?;
/// let (inbox, ledger) = (Inbox::default(), ConsumerName::new("ledger")?);
///
/// // The headers of a record that came from an outbox.
/// let headers = [("leastlock_event_id", "01890a5d-ac96-774b-bcce-b302099a8057")];
/// let header = |name: &str| headers.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_bytes());
/// let event_id = EventId::of_record(header).ok_or("not from an outbox")?;
///
/// for arrival in [Arrival::FirstTime, Arrival::Repeat] {
///     let mut tx = leastlock_core::begin(&pool).await?;
///     assert_eq!(inbox.first_time(&mut tx, &ledger, event_id).await?, arrival);
///     // … the effect, if it is the first time, in this transaction …
///     leastlock_core::commit(tx).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Inbox {
    retention: Duration,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { retention: Duration::from_hours(14 * 24) }
    }
}

impl Inbox {
    /// How long a mark stays (default: 14 days; 1 minute to 10 years).
    ///
    /// # Errors
    /// [`SettingError`] when it is out of these bounds.
    pub fn retention(mut self, retention: Duration) -> Result<Self, SettingError> {
        if !(Duration::from_mins(1)..=Duration::from_hours(3660 * 24)).contains(&retention) {
            return Err(SettingError { setting: "retention", bounds: "1 minute to 10 years" });
        }
        self.retention = retention;
        Ok(self)
    }

    /// Marks an event as seen by a consumer, in the transaction of its effect, and says whether it is new. Of two consumers that
    /// are at one event at once, the second waits for the first: it answers [`Repeat`](Arrival::Repeat) if that committed, and
    /// [`FirstTime`](Arrival::FirstTime) if it rolled back.
    ///
    /// Call it first in the transaction: what waits here then holds nothing. Right at every isolation level; above READ COMMITTED
    /// PostgreSQL refuses, with a retryable error, an event that another transaction marked after this one's snapshot.
    ///
    /// Begin with [`leastlock_core::begin`] and end with [`leastlock_core::commit`], unless a partition worker gave the transaction. The
    /// first bounds how long a process that stops inside keeps others waiting, and on SQLite writes from the start, without which it may
    /// fail as busy. The second fails where the error of a statement was overlooked: `tx.commit()` would answer `Ok` with mark and effect
    /// rolled back.
    ///
    /// # Errors
    /// [`Error::Database`]. If it is retryable, the whole transaction must be begun again: a lock that was not had in time, a
    /// serialization failure, a deadlock (on MySQL, when several waited for one that rolled back). No error is ever a first.
    ///
    /// # Cancel safety
    /// As any statement: dropped half-way, roll the transaction back.
    pub async fn first_time<DB: InboxSql>(
        &self,
        tx: &mut Transaction<'_, DB>,
        consumer: &ConsumerName,
        event_id: EventId,
    ) -> Result<Arrival, Error> {
        let event_id = event_id.to_string();
        let mark = Statement::new(DB::FIRST_TIME).bind(&consumer.0).bind(&event_id);
        match mark.execute::<DB>(tx).await {
            Ok(0) => Ok(Arrival::Repeat),
            Ok(_) => Ok(Arrival::FirstTime),
            // MySQL has no insert that leaves an existing row alone and hides no other error.
            Err(error) if DB::ENGINE == Engine::MySql && classify::<DB>(&error) == ErrorClass::UniqueViolation => {
                Ok(Arrival::Repeat)
            }
            Err(error) => Err(Error::database::<DB>(error)),
        }
    }

    /// Deletes at most `batch` marks of all consumers that are older than the retention, the oldest first, and answers how many
    /// it deleted; call it until it answers less. Marks that somebody has just met are left for the next time. Correctness never waits
    /// for it: a mark that is there makes a repeat, however old it is.
    ///
    /// # Errors
    /// [`Error::Database`].
    ///
    /// # Cancel safety
    /// One transaction: the batch is deleted whole or not at all.
    pub async fn sweep<DB: InboxSql>(&self, pool: &Pool<DB>, batch: u32) -> Result<u64, Error> {
        let database = Error::database::<DB>;
        let retention_ms = i64::try_from(self.retention.as_millis()).unwrap_or(i64::MAX);
        let mut tx = begin(pool).await.map_err(database)?;
        let deleted = DB::sweep(&mut tx, retention_ms, i64::from(batch)).await.map_err(database)?;
        commit(tx).await.map_err(database)?;
        Ok(deleted)
    }
}

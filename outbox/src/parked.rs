//! Events that cannot be sent: what an operator sees of them, and can do.
//!
//! An event that the sink refuses for good is *parked* with its key: later events of the key are parked behind it, in order, and
//! everything else goes on. Here they are listed, tried again, skipped or released. None of it sends anything by itself: it is
//! written into the tables, with an audit row in the same transaction, and the relay that holds the shard does it, under its lease
//! and within a quarter of a second; within a minute while the sink answers to nothing that is tried again.

use std::time::Duration;

use leastlock_core::{Row, Statement, commit};
use sqlx::{Connection, Pool};

use crate::error::Error;
use crate::event::EventId;
use crate::parked::request::{By, Found, Locked, State, ask, find};
use crate::relay::connection::{LONGEST_IDLE_MS, Lent};
use crate::sink::LoggedEvent;
use crate::sql::OutboxSql;

mod list;
pub(crate) mod log;
pub(crate) mod park;
pub(crate) mod queue;
pub(crate) mod request;
pub(crate) mod sql;

pub use self::list::{Action, Filter, ParkedCount, ParkedEvent, Place};
pub use self::log::{ParkedLog, Tried};
pub use self::park::{Cause, Park};
pub use self::queue::Queue;
pub use self::sql::ParkedSql;

/// How long the database may take for one call.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// Queues of a topic asked for in one transaction.
const QUEUES_A_TRANSACTION: i64 = 1_000;

/// The parked events of a database.
///
/// ```
/// use leastlock_outbox::{Filter, Parked, Retry};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite://{}?mode=rwc", folder.path().join("shop.sqlite").display());
/// # let pool = sqlx::SqlitePool::connect(&url).await?;
/// # leastlock_outbox::MIGRATIONS.run(&pool).await?;
/// let parked = Parked::of(&pool);
/// for event in parked.list(&Filter::all().refused(), None, 100).await? {
///     println!("{} of {}: {}", event.event_id, event.topic, event.reason);
/// }
/// // The topic is there now: everything that waits for it is tried again, each key from its first event on.
/// let asked = parked.retry(&Retry::Topic("stock-moves"), "ann", "created the topic, see OPS-7").await?;
/// println!("{asked}");
/// # Ok(())
/// # }
/// ```
///
/// What was asked for twice is done once. A relay that dies half-way is followed by another, which goes on: what it repeats bears the
/// same event ids, and the first occurrences of a key stay in order.
///
/// | limit | |
/// |---|---|
/// | one call | 10 s, then [`Error::NoAnswer`] |
/// | `actor` | 1 to 255 bytes |
/// | `reason` | 1 to 4,000 bytes |
#[derive(Debug, Clone)]
pub struct Parked<DB: OutboxSql> {
    pool: Pool<DB>,
}

/// What to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry<'a> {
    /// One event: the first of its key, or one that is parked alone. The ones behind it follow if it is sent.
    Event(EventId),
    /// A key, from its first parked event on.
    Key {
        /// The topic.
        topic: &'a str,
        /// The key.
        key: &'a [u8],
    },
    /// Every key of a topic, each from its first parked event on, and every event of it that is parked alone.
    Topic(&'a str),
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a request may have changed nothing"]
pub enum Asked {
    /// It is written, with its audit row. What was skipped is gone; what is to be sent, the relay that holds the shard sends.
    Done {
        /// Of how many queues: keys, and events that are parked alone.
        queues: u64,
    },
    /// Nothing changed: there is no such event or key, or not any more. It was sent, or skipped.
    NotParked,
    /// Nothing changed: the relay has been asked to send these events and is not done. To skip one, wait until they are sent or
    /// parked again.
    UnderWay,
    /// Nothing changed: the event is not the first of its key, and would overtake.
    Behind {
        /// The one that is first.
        first: EventId,
    },
}

impl std::fmt::Display for Asked {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done { queues } => {
                write!(formatter, "written for {queues} keys or single events; a relay sends what is to be sent")
            }
            Self::NotParked => formatter.write_str("nothing like that is parked; list what is"),
            Self::UnderWay => formatter.write_str(
                "a relay is to send this already; see that one runs and its broker answers, and ask again once it is sent or parked",
            ),
            Self::Behind { first } => {
                write!(formatter, "it would overtake event {first} of its key; retry or skip that one first")
            }
        }
    }
}

impl<DB: OutboxSql> Parked<DB> {
    /// The parked events of the outbox in `pool`.
    #[must_use]
    pub fn of(pool: &Pool<DB>) -> Self {
        Self { pool: pool.clone() }
    }

    /// How much is parked.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn count(&self, filter: &Filter) -> Result<ParkedCount, Error> {
        let rows = self.rows(filter.bind_to(Statement::new(DB::COUNT)), "counting parked events").await?;
        let row = rows.first().ok_or_else(|| Error::database::<DB>(sqlx::Error::RowNotFound))?;
        ParkedCount::from_row(row).map_err(Error::database::<DB>)
    }

    /// Lists parked events, shard by shard and in each in the order in which they would be sent, from behind `after` on; at most
    /// `limit`, and never more than 1,000. Without their values: see [`read`](Self::read).
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn list(&self, filter: &Filter, after: Option<Place>, limit: u32) -> Result<Vec<ParkedEvent>, Error> {
        let list = filter.bind_to(Statement::new(DB::LIST));
        let list = Place::bind_to(after, list).bind(i64::from(limit.min(1_000)));
        let rows = self.rows(list, "listing parked events").await?;
        rows.iter().map(ParkedEvent::from_row).collect()
    }

    /// A parked event, whole; `None` if it is not parked.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the row cannot be read.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn read(&self, event: EventId) -> Result<Option<LoggedEvent>, Error> {
        let id = event.to_string();
        let rows = self.rows(Statement::new(DB::ONE).bind(&id), "reading a parked event").await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let shard = row.int(0).map_err(Error::database::<DB>)?;
        LoggedEvent::from_row(row, shard, 1).map(Some)
    }

    /// What operators did, the newest first, before the audit's row `before`; at most `limit`, and never more than 1,000.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn history(&self, before: Option<i64>, limit: u32) -> Result<Vec<Action>, Error> {
        let history = Statement::new(DB::HISTORY).bind(before.unwrap_or(i64::MAX)).bind(i64::from(limit.min(1_000)));
        let rows = self.rows(history, "reading the audit of parked events").await?;
        rows.iter().map(Action::from_row).collect()
    }

    /// Asks for parked events to be sent again, because what was in the way is gone. Each key goes on from its first parked event, in
    /// order, and later events of it follow. One that is refused again stays where it is, and its key with it; its
    /// [`attempts`](ParkedEvent::attempts) go up by one. A broker that is away is waited for and counts as no attempt.
    ///
    /// [`Retry::Topic`] is written in steps of 1,000 keys, each with its own audit row.
    ///
    /// # Errors
    /// [`Error::Unaccounted`] if `actor` or `reason` is empty or too long; [`Error::Database`], [`Error::NoAnswer`].
    ///
    /// # Cancel safety
    /// Dropped half-way, the request is written with its audit, or neither is (for a topic: of each step).
    pub async fn retry(&self, what: &Retry<'_>, actor: &str, reason: &str) -> Result<Asked, Error> {
        let by = By::new(actor, reason)?;
        match what {
            Retry::Event(event) => self.within(self.retry_event(*event, &by)).await,
            Retry::Key { topic, key } => {
                let queue = Queue::of_key(topic, key);
                self.within(self.ask_for(queue, State::Retrying, &by)).await
            }
            Retry::Topic(topic) => {
                let (mut queues, mut after) = (0, String::new());
                while let Some((step, last)) = self.within(self.retry_some(topic, &after, &by)).await? {
                    queues += step;
                    after = last;
                }
                Ok(if queues == 0 { Asked::NotParked } else { Asked::Done { queues } })
            }
        }
    }

    /// Gives up one event: it is never sent. Its row is removed, so [`read`](Self::read) it first if anybody needs it. If it was the
    /// first of its key, the key goes on with the next, in order.
    ///
    /// # Errors
    /// As [`retry`](Self::retry).
    ///
    /// # Cancel safety
    /// Dropped half-way, the event is gone with its audit row there, or neither is so.
    pub async fn skip(&self, event: EventId, actor: &str, reason: &str) -> Result<Asked, Error> {
        let by = By::new(actor, reason)?;
        self.within(self.skip_event(event, &by)).await
    }

    /// Gives up the block of a key: its parked events are sent in order, and its later ones after them. What is refused again is then
    /// parked *alone* and holds up nothing any more, so that the key flows whatever becomes of it.
    ///
    /// A key whose retry is under way can be released as well.
    ///
    /// # Errors
    /// As [`retry`](Self::retry).
    ///
    /// # Cancel safety
    /// Dropped half-way, the request is written with its audit, or neither is.
    pub async fn release(&self, topic: &str, key: &[u8], actor: &str, reason: &str) -> Result<Asked, Error> {
        let by = By::new(actor, reason)?;
        self.within(self.ask_for(Queue::of_key(topic, key), State::Releasing, &by)).await
    }

    async fn retry_event(&self, event: EventId, by: &By<'_>) -> Result<Asked, Error> {
        let mut connection = Lent::holding(&self.pool, LONGEST_IDLE_MS).await?;
        let mut tx = connection.begin_with(DB::BEGIN_WRITE).await.map_err(Error::database::<DB>)?;
        let (found, locked) = match Self::hold(&mut tx, event).await? {
            Ok(held) => held,
            Err(nothing) => return Ok(nothing),
        };
        match Locked::first::<DB>(&mut tx, &found.queue).await? {
            Some((id, _)) if id == found.id => {}
            Some((_, first)) => return Ok(Asked::Behind { first }),
            None => return Ok(Asked::NotParked),
        }
        ask::<DB>(&mut tx, &found.queue, State::Retrying).await?;
        locked.audit::<DB>(&mut tx, by, "retry", Some(event), 1).await?;
        commit(tx).await.map_err(Error::database::<DB>)?;
        connection.give_back();
        Ok(Asked::Done { queues: 1 })
    }

    async fn ask_for(&self, queue: Queue, state: State, by: &By<'_>) -> Result<Asked, Error> {
        let queue = queue.to_string();
        let mut connection = Lent::holding(&self.pool, LONGEST_IDLE_MS).await?;
        let mut tx = connection.begin_with(DB::BEGIN_WRITE).await.map_err(Error::database::<DB>)?;
        let Some(locked) = Locked::lock::<DB>(&mut tx, &queue).await? else { return Ok(Asked::NotParked) };
        let action = match (locked.state, state) {
            (State::Parked, State::Retrying) => "retry",
            (State::Parked | State::Retrying, State::Releasing) => "release",
            _ => return Ok(Asked::UnderWay),
        };
        ask::<DB>(&mut tx, &queue, state).await?;
        locked.audit::<DB>(&mut tx, by, action, None, 1).await?;
        commit(tx).await.map_err(Error::database::<DB>)?;
        connection.give_back();
        Ok(Asked::Done { queues: 1 })
    }

    /// Asks for the next queues of a topic; answers how many, and the last of them, if there was any.
    async fn retry_some(&self, topic: &str, after: &str, by: &By<'_>) -> Result<Option<(u64, String)>, Error> {
        let database = Error::database::<DB>;
        let mut connection = Lent::holding(&self.pool, LONGEST_IDLE_MS).await?;
        let mut tx = connection.begin_with(DB::BEGIN_WRITE).await.map_err(database)?;
        let page = Statement::new(DB::TOPIC).bind(topic).bind(after).bind(QUEUES_A_TRANSACTION);
        let last = page.fetch_one::<DB>(&mut tx).await.and_then(|row| row.optional_text(0)).map_err(database)?;
        let Some(last) = last else { return Ok(None) };
        let some = Statement::new(DB::ASK_TOPIC).bind(topic).bind(after).bind(&last);
        let queues = some.execute::<DB>(&mut tx).await.map_err(database)?;
        if queues > 0 {
            let locked = Locked { state: State::Parked, topic: topic.to_owned(), key: None };
            locked.audit::<DB>(&mut tx, by, "retry", None, queues).await?;
        }
        commit(tx).await.map_err(database)?;
        connection.give_back();
        Ok(Some((queues, last)))
    }

    async fn skip_event(&self, event: EventId, by: &By<'_>) -> Result<Asked, Error> {
        let mut connection = Lent::holding(&self.pool, LONGEST_IDLE_MS).await?;
        let mut tx = connection.begin_with(DB::BEGIN_WRITE).await.map_err(Error::database::<DB>)?;
        let (found, locked) = match Self::hold(&mut tx, event).await? {
            Ok(held) => held,
            Err(nothing) => return Ok(nothing),
        };
        let was_first = Locked::first::<DB>(&mut tx, &found.queue).await?.is_some_and(|(id, _)| id == found.id);
        DB::forget(&mut tx, found.shard, &[found.id]).await.map_err(Error::database::<DB>)?;
        if was_first {
            let open = Statement::new(DB::OPEN).bind(&found.queue);
            if open.execute::<DB>(&mut tx).await.map_err(Error::database::<DB>)? == 0 {
                ask::<DB>(&mut tx, &found.queue, State::Retrying).await?;
            }
        }
        locked.audit::<DB>(&mut tx, by, "skip", Some(event), 1).await?;
        commit(tx).await.map_err(Error::database::<DB>)?;
        connection.give_back();
        Ok(Asked::Done { queues: 1 })
    }

    /// An event whose queue is held, and that nobody is to send; or why there is none.
    async fn hold(connection: &mut DB::Connection, event: EventId) -> Result<Result<(Found, Locked), Asked>, Error> {
        let Some(found) = find::<DB>(connection, event).await? else { return Ok(Err(Asked::NotParked)) };
        let Some(locked) = Locked::lock::<DB>(connection, &found.queue).await? else {
            return Ok(Err(Asked::NotParked));
        };
        if locked.state != State::Parked {
            return Ok(Err(Asked::UnderWay));
        }
        // While the lock was waited for, a relay may have sent the event, or set it aside.
        match find::<DB>(connection, event).await? {
            Some(still) if still == found => Ok(Ok((found, locked))),
            Some(_) => Ok(Err(Asked::UnderWay)),
            None => Ok(Err(Asked::NotParked)),
        }
    }

    async fn rows(&self, statement: Statement<'_>, request: &'static str) -> Result<Vec<Row<DB>>, Error> {
        let rows = async {
            let mut connection = self.pool.acquire().await.map_err(Error::database::<DB>)?;
            statement.fetch_all::<DB>(&mut connection).await.map_err(Error::database::<DB>)
        };
        tokio::time::timeout(CALL_LIMIT, rows).await.unwrap_or(Err(Error::NoAnswer { request, limit: CALL_LIMIT }))
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let no_answer = Error::NoAnswer { request: "a request for parked events", limit: CALL_LIMIT };
        tokio::time::timeout(CALL_LIMIT, call).await.unwrap_or(Err(no_answer))
    }
}

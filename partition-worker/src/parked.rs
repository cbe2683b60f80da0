//! Parked keys: what an operator sees of them, and can do.
//!
//! With [`OnFailure::ParkKey`](crate::OnFailure::ParkKey) a record that fails for good is copied to a parking topic and its key is *parked*:
//! later records of the key follow it there, in order, and all other keys go on. A table says which keys are parked, and where in
//! the parking topic their records stand; a copy that it does not name, as a crash may leave one behind, is never handled.
//!
//! Here they are listed, released or given up. None of it handles anything by itself: it is written into the tables, with an audit row
//! in the same transaction, and the worker that owns the partition does it, within half a second.
//!
//! # How a release goes
//! The owner reads the copies back in the order of their offsets and gives each to the handler, as the record that it was. It leaves the
//! queue in the transaction of its effect, so that this is exactly once like any other. In the key's lane the copies go first; what comes
//! meanwhile follows them into the parking topic. With the last one the key is free. If one fails for good again, the key is parked as
//! before, from that record on.

use std::sync::Arc;
use std::time::Duration;

use leastlock_core::{Row, Statement};
use sqlx::{Pool, Transaction};

use self::state::State;
use crate::error::Error;
use crate::sql::WorkerSql;

mod list;
mod parking;
mod queue;
mod sql;
mod state;

pub use self::list::{Action, ParkedKey, ParkedRecord, Place};
pub use self::parking::{Copied, Due, Park, Parking, Released, Standing};
pub use self::queue::Queue;
pub use self::sql::ParkedSql;

/// How long the database may take for one call.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// Longest name of who asks, and longest reason, in bytes: the audit keeps both whole.
const MAX_ACTOR_BYTES: usize = 255;
const MAX_REASON_BYTES: usize = 4_000;

/// The parked keys of a consumer group.
///
/// ```
/// use leastlock_partition_worker::Parked;
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.path().join("ledger")).create_if_missing(true);
/// # let pool = sqlx::SqlitePool::connect_with(options).await?;
/// # leastlock_partition_worker::MIGRATIONS.run(&pool).await?;
/// let parked = Parked::new(&pool, "ledger");
/// for key in parked.list(Some("stock-moves"), None, 100).await? {
///     println!("{}: {} records behind offset {:?}, {}", key.place.partition, key.records, key.first_offset, key.reason);
///     let asked = parked.release(&key.place, "ann", "the account is there now, see OPS-7").await?;
///     println!("{asked}");
/// }
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
///
/// | limit | |
/// |---|---|
/// | one call | 10 s, then [`Error::Parked`] |
/// | `actor` | 1 to 255 bytes |
/// | `reason` | 1 to 4,000 bytes |
#[derive(Debug)]
pub struct Parked<DB: WorkerSql> {
    pool: Pool<DB>,
    group: Arc<str>,
}

/// What to give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discard {
    /// The record of this offset in the original partition.
    Record(i64),
    /// Every record of the queue.
    All,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a request may have changed nothing"]
pub enum Asked {
    /// It is written, with its audit row. What was released, the owner of the partition handles; what was given up is gone.
    Done,
    /// Nothing changed: there is no such key or record, or not any more.
    NotParked,
    /// Nothing changed: the key has been released, and its records are being handled. To give one up, wait until the key is free or
    /// parked again.
    UnderWay,
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Done => "written; the worker that owns the partition does the rest",
            Self::NotParked => "nothing like that is parked; list what is",
            Self::UnderWay => "released already; see that a worker owns the partition",
        })
    }
}

impl<DB: WorkerSql> Parked<DB> {
    /// The parked keys of `group` in the database of `pool`.
    #[must_use]
    pub fn new(pool: &Pool<DB>, group: impl Into<Arc<str>>) -> Self {
        Self { pool: pool.clone(), group: group.into() }
    }

    /// Lists parked keys, of one topic or of all, by topic and partition, from behind `after` on; at most `limit`, and never more than
    /// 1,000.
    ///
    /// # Errors
    /// [`Error::Parked`]: what the database said, or that it said nothing within 10 s.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn list(&self, topic: Option<&str>, after: Option<&Place>, limit: u32) -> Result<Vec<ParkedKey>, Error> {
        self.listed(topic, None, after, limit).await
    }

    /// A key, in each partition of the topic in which it is parked: in one, unless the topic was given more partitions meanwhile.
    ///
    /// # Errors
    /// [`Error::Parked`]: what the database said, or that it said nothing within 10 s.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn find(&self, topic: &str, key: &[u8]) -> Result<Vec<ParkedKey>, Error> {
        let queue = Queue::of_key(key).to_string();
        self.listed(Some(topic), Some(&queue), None, 1_000).await
    }

    /// The records of a parked key behind offset `after`, in order; at most `limit`, and never more than 1,000.
    ///
    /// # Errors
    /// [`Error::Parked`]: what the database said, or that it said nothing within 10 s.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn records(&self, place: &Place, after: Option<i64>, limit: u32) -> Result<Vec<ParkedRecord>, Error> {
        let queue = place.queue.to_string();
        let next = self.about(DB::PARK_NEXT, place, &queue).bind(after.unwrap_or(-1)).bind(i64::from(limit.min(1_000)));
        let rows = within("listing parked records", self.rows(next)).await?;
        rows.iter().map(ParkedRecord::from_row).collect::<Result<_, _>>().map_err(failed("reading parked records"))
    }

    /// What operators did, the newest first, before the audit's row `before`; at most `limit`, and never more than 1,000.
    ///
    /// # Errors
    /// [`Error::Parked`]: what the database said, or that it said nothing within 10 s.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn history(&self, before: Option<i64>, limit: u32) -> Result<Vec<Action>, Error> {
        let history = Statement::new(DB::PARKED_HISTORY).bind(&*self.group).bind(before.unwrap_or(i64::MAX));
        let rows = within("reading the audit", self.rows(history.bind(i64::from(limit.min(1_000))))).await?;
        rows.iter().map(Action::from_row).collect::<Result<_, _>>().map_err(failed("reading the audit"))
    }

    /// Has the records of a key handled, because what was in the way is gone: in order, from the first on, and before anything newer of
    /// the key. One that fails for good again parks the key as before. If no worker owns the partition now, the next one does it.
    ///
    /// # Errors
    /// [`Error::Unaccounted`] if `actor` or `reason` is empty or too long; [`Error::Parked`].
    ///
    /// # Cancel safety
    /// Dropped half-way, the request is written with its audit, or neither is.
    pub async fn release(&self, place: &Place, actor: &str, reason: &str) -> Result<Asked, Error> {
        let by = By::new(actor, reason)?;
        within("releasing a parked key", self.ask(place, &by)).await
    }

    /// Gives up a record, or all records of a key: no handler ever gets it. Its copy stays in the parking topic. A key whose last record is
    /// gone is free; else it stays parked, until it is [released](Self::release).
    ///
    /// # Errors
    /// As [`release`](Self::release).
    ///
    /// # Cancel safety
    /// Dropped half-way, the records are gone with their audit row there, or neither is so.
    pub async fn discard(&self, place: &Place, what: Discard, actor: &str, reason: &str) -> Result<Asked, Error> {
        let by = By::new(actor, reason)?;
        within("discarding parked records", self.give_up(place, what, &by)).await
    }

    async fn ask(&self, place: &Place, by: &By<'_>) -> Result<Asked, sqlx::Error> {
        let queue = place.queue.to_string();
        let mut tx = DB::begin_step(&self.pool).await?;
        let Some((state, key)) = self.lock(&mut tx, place, &queue).await? else { return Ok(Asked::NotParked) };
        if state == State::Releasing {
            return Ok(Asked::UnderWay);
        }
        self.about(DB::PARKED_ASK, place, &queue).execute::<DB>(&mut tx).await?;
        self.audit(&mut tx, by, "release", (place, &queue, key.as_deref()), (None, 0)).await?;
        tx.commit().await?;
        Ok(Asked::Done)
    }

    async fn give_up(&self, place: &Place, what: Discard, by: &By<'_>) -> Result<Asked, sqlx::Error> {
        let queue = place.queue.to_string();
        let mut tx = DB::begin_step(&self.pool).await?;
        let Some((state, key)) = self.lock(&mut tx, place, &queue).await? else { return Ok(Asked::NotParked) };
        if state == State::Releasing {
            return Ok(Asked::UnderWay);
        }
        let (gone, offset) = match what {
            Discard::Record(offset) => {
                let done = self.about(DB::PARK_DONE, place, &queue).bind(offset);
                (done.execute::<DB>(&mut tx).await?, Some(offset))
            }
            Discard::All => (self.about(DB::PARKED_DISCARD, place, &queue).execute::<DB>(&mut tx).await?, None),
        };
        if gone == 0 {
            return Ok(Asked::NotParked);
        }
        self.about(DB::PARK_OPEN, place, &queue).execute::<DB>(&mut tx).await?;
        self.audit(&mut tx, by, "discard", (place, &queue, key.as_deref()), (offset, gone)).await?;
        tx.commit().await?;
        Ok(Asked::Done)
    }

    async fn listed(
        &self,
        topic: Option<&str>,
        queue: Option<&str>,
        after: Option<&Place>,
        limit: u32,
    ) -> Result<Vec<ParkedKey>, Error> {
        let behind = after.map_or(String::new(), |after| after.queue.to_string());
        let list = Statement::new(DB::PARKED_LIST).bind(&*self.group).bind(topic).bind(topic).bind(queue).bind(queue);
        let list = list.bind(after.map_or("", |after| after.partition.topic()));
        let list = list.bind(after.map_or(-1, |after| i64::from(after.partition.partition()))).bind(&behind);
        let rows = within("listing parked keys", self.rows(list.bind(i64::from(limit.min(1_000))))).await?;
        rows.iter().map(ParkedKey::from_row).collect::<Result<_, _>>().map_err(failed("reading parked keys"))
    }

    async fn rows(&self, statement: Statement<'_>) -> Result<Vec<Row<DB>>, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        statement.fetch_all::<DB>(&mut connection).await
    }

    async fn lock(
        &self,
        tx: &mut Transaction<'_, DB>,
        place: &Place,
        queue: &str,
    ) -> Result<Option<(State, Option<Vec<u8>>)>, sqlx::Error> {
        let row = self.about(DB::PARK_LOCK, place, queue).fetch_optional::<DB>(tx).await?;
        row.map(|row| Ok((State::read(&row.text(0)?)?, row.optional_bytes(1)?))).transpose()
    }

    async fn audit(
        &self,
        tx: &mut Transaction<'_, DB>,
        by: &By<'_>,
        action: &str,
        (place, queue, key): (&Place, &str, Option<&[u8]>),
        (offset, records): (Option<i64>, u64),
    ) -> Result<(), sqlx::Error> {
        let audit = Statement::new(DB::PARKED_AUDIT).bind(by.actor).bind(action).bind(by.reason).bind(&*self.group);
        let audit = audit.bind(place.partition.topic()).bind(i64::from(place.partition.partition())).bind(queue);
        let audit = audit.bind(key).bind(offset).bind(i64::try_from(records).unwrap_or(i64::MAX));
        audit.execute::<DB>(tx).await.map(drop)
    }

    fn about<'a>(&'a self, sql: &'static str, place: &'a Place, queue: &'a str) -> Statement<'a> {
        let partition = &place.partition;
        let about = Statement::new(sql).bind(&*self.group).bind(partition.topic());
        about.bind(i64::from(partition.partition())).bind(queue)
    }
}

/// Not derived, since that would ask the engine for it.
impl<DB: WorkerSql> Clone for Parked<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), group: Arc::clone(&self.group) }
    }
}

/// Who asks, and why.
struct By<'a> {
    actor: &'a str,
    reason: &'a str,
}

impl<'a> By<'a> {
    fn new(actor: &'a str, reason: &'a str) -> Result<Self, Error> {
        for (text, limit) in [(actor, MAX_ACTOR_BYTES), (reason, MAX_REASON_BYTES)] {
            if text.trim().is_empty() || text.len() > limit {
                return Err(Error::Unaccounted);
            }
        }
        Ok(Self { actor, reason })
    }
}

async fn within<T>(operation: &'static str, call: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, Error> {
    crate::progress::answered(CALL_LIMIT, call).await.map_err(failed(operation))
}

fn failed(operation: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |source| Error::Parked { operation, source }
}

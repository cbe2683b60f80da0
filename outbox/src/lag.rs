//! How far publishing is behind.

use std::time::{Duration, Instant};

use leastlock_core::{Dialect, Row, Statement};
use sqlx::Pool;

use crate::error::Error;
use crate::sql::OutboxSql;

/// How far the publishing of a whole outbox is behind at one moment, whichever relays run.
///
/// Three ages, since each has another cure. An old [`open_writer`](Self::open_writer): a transaction that appended is not ended; its
/// events cannot be published, and nobody else's wait for them. An old [`unpublished`](Self::unpublished) event: the relays or the
/// broker are slow or away. An old [`parked`](Self::parked) one: somebody has to look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// The age of the oldest open transaction that has appended. On PostgreSQL it is judged by the lock on the table, which an append
    /// takes, and so do a replay and the deletion of old events; another role's transaction is seen by members of `pg_read_all_stats` only.
    /// `None`: there is none, or the engine does not show it (`SQLite`, MariaDB, MySQL).
    pub open_writer: Option<Duration>,
    /// The age of the oldest committed event that is not noted as published; about the oldest where many are.
    pub unpublished: Option<Duration>,
    /// How long the event that was parked first has been so.
    pub parked: Option<Duration>,
    /// How many committed events are not noted as published.
    pub backlog: u64,
    /// Whether `backlog` was counted, or estimated because it is large.
    pub backlog_is_exact: bool,
    /// How many events are parked.
    pub parked_events: u64,
    highest_id: i64,
    at: Instant,
}

impl Lag {
    /// Reads it. It costs a few index lookups a shard, and up to a thousand rows of each where there is a backlog.
    ///
    /// # Errors
    /// [`Error::Database`] as any statement.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn of<DB: OutboxSql>(pool: &Pool<DB>) -> Result<Self, Error> {
        let mut connection = pool.acquire().await.map_err(Error::database::<DB>)?;
        Self::read::<DB>(&mut connection).await.map_err(Error::database::<DB>)
    }

    /// Events appended a second since an `earlier` reading, those of rolled-back transactions included; 0 where no time has passed.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a rate needs no more than a float has")]
    pub fn appended_per_second(&self, earlier: &Self) -> f64 {
        let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        let events = self.highest_id.saturating_sub(earlier.highest_id).max(0) as f64;
        if seconds > 0.0 { events / seconds } else { 0.0 }
    }

    pub(crate) async fn read<DB: OutboxSql>(connection: &mut DB::Connection) -> Result<Self, sqlx::Error> {
        let row = Statement::new(DB::LAG).fetch_one::<DB>(connection).await?;
        Ok(Self {
            open_writer: age(&row, 0)?,
            unpublished: age(&row, 1)?,
            backlog: count(&row, 2)?,
            backlog_is_exact: row.optional_int(3)? != Some(0),
            parked: age(&row, 4)?,
            parked_events: count(&row, 5)?,
            highest_id: row.optional_int(6)?.unwrap_or_default(),
            at: Instant::now(),
        })
    }
}

/// An age in milliseconds. One below zero is a database clock that was stepped back.
fn age<DB: Dialect>(row: &Row<DB>, index: usize) -> Result<Option<Duration>, sqlx::Error> {
    let age = row.optional_int(index)?;
    Ok(age.map(|age| Duration::from_millis(u64::try_from(age).unwrap_or_default())))
}

fn count<DB: Dialect>(row: &Row<DB>, index: usize) -> Result<u64, sqlx::Error> {
    Ok(row.optional_int(index)?.and_then(|count| u64::try_from(count).ok()).unwrap_or_default())
}

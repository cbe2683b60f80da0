//! The exactly-once effect: who owns a partition, and what of it is finished, in the database of the effect.
//!
//! | part | does |
//! |---|---|
//! | [`seal`](Progress::seal) | takes a partition over: afterwards no earlier owner can commit anything |
//! | [`enter`](Progress::enter) | the fence: a handler's first statement, which also marks its record as finished |
//! | [`fold`](Progress::fold) | the owner's housekeeping: many finished offsets become one `next_offset` |
//!
//! The worker uses these by itself. They stand here for consumers of another kind, and because what they promise can be
//! tested without Kafka.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Pool, Transaction};

use leastlock_core::{Backoff, Statement};

use crate::partition::TopicPartition;
use crate::sql::WorkerSql;

mod fence;
mod fold;
mod seal;

pub use self::fence::Entry;
pub use self::fold::Fold;
pub use self::seal::{Blocker, Guard, Seal, Sealed};

/// The progress of one consumer group, as one owner sees it.
#[derive(Debug)]
pub struct Progress<DB: WorkerSql> {
    pool: Pool<DB>,
    group: Arc<str>,
    owner: Arc<str>,
    timeouts: Timeouts,
    backoff: Backoff,
}

/// How long locks are waited for, and held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// One attempt of a seal to raise the guard row; then who is in the way is reported, and the next attempt begins.
    /// PostgreSQL's `statement_timeout`. Default: 5 s.
    pub seal: Duration,
    /// How long a handler's transaction may be idle, that is, how long a stopped process can hold up a seal. PostgreSQL's
    /// `idle_in_transaction_session_timeout`. A handler that waits longer than this for something outside of its
    /// transaction loses it. Default: 10 s.
    pub idle: Duration,
    /// A fold's wait for the guard row. PostgreSQL's `lock_timeout`. Default: 200 ms.
    pub fold: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { seal: Duration::from_secs(5), idle: Duration::from_secs(10), fold: Duration::from_millis(200) }
    }
}

impl<DB: WorkerSql> Progress<DB> {
    /// The progress of `group`; `owner` says in the tables who it was that sealed.
    #[must_use]
    pub fn new(pool: Pool<DB>, group: impl Into<Arc<str>>, owner: impl Into<Arc<str>>) -> Self {
        Self {
            pool,
            group: group.into(),
            owner: owner.into(),
            timeouts: Timeouts::default(),
            backoff: Backoff::new(Duration::from_millis(20), Duration::from_secs(1)),
        }
    }

    /// The same with other time-outs.
    #[must_use]
    pub fn with_timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }

    /// The database.
    #[must_use]
    pub const fn pool(&self) -> &Pool<DB> {
        &self.pool
    }

    /// The time-outs.
    #[must_use]
    pub const fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    pub(crate) async fn begin(&self) -> Result<Transaction<'static, DB>, sqlx::Error> {
        leastlock_core::begin(&self.pool).await
    }

    fn about<'a>(&'a self, sql: &'static str, partition: &'a TopicPartition) -> Statement<'a> {
        Statement::new(sql).bind(&*self.group).bind(partition.topic()).bind(i64::from(partition.partition()))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

//! The exactly-once effect: who owns a partition, and what of it is finished, in the database of the effect.
//!
//! | part | does |
//! |---|---|
//! | [`seal`](Progress::seal) | takes a partition over: afterwards no earlier owner can commit anything |
//! | [`enter`](Progress::enter) | the fence: a handler's first statement, which also marks its record as finished |
//! | [`enter_all`](Progress::enter_all) | the fence of many records in one transaction |
//! | [`fold`](Progress::fold) | the owner's housekeeping: many finished offsets become one `next_offset` |
//! | [`identify`](Progress::identify) | tells a topic from another of its name, and [`rebase`](Progress::rebase) goes on with that one |
//!
//! The worker uses these by itself. They stand here for consumers of another kind, and because what they promise can be
//! tested without Kafka.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Pool;

use leastlock_core::{Backoff, Statement};

use crate::own_transaction::OwnTransaction;
use crate::partition::TopicPartition;
use crate::sql::{GroupPartition, WorkerSql};

mod batch;
mod fence;
mod fold;
mod identity;
mod rebase;
mod seal;

pub use self::fence::Entry;
pub use self::fold::Fold;
pub use self::identity::Identity;
pub use self::rebase::Rebased;
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

/// How long locks are waited for, and held, and how long the database may take to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// One attempt of a seal to raise the guard row; then who is in the way is reported, and the next attempt begins.
    /// PostgreSQL's `statement_timeout`, MariaDB's `max_statement_time`. Default: 5 s.
    pub seal: Duration,
    /// How long a handler's transaction may be idle, that is, how long a stopped process can hold up a seal. PostgreSQL's
    /// `idle_in_transaction_session_timeout`; MariaDB's `idle_transaction_timeout`, in whole seconds, rounded up. A handler that waits longer than this for something outside of its
    /// transaction loses it. Default: 10 s.
    pub idle: Duration,
    /// A fold's wait for the guard row. PostgreSQL's `lock_timeout`, MariaDB's `max_statement_time`. Default: 200 ms.
    pub fold: Duration,
    /// How long the database may take to answer a request of this crate's own: to begin a handler's transaction, to let it
    /// in, to commit it, to do a step of a seal (the second one beyond [`seal`](Self::seal)) or a fold. Counted here and not
    /// by the server, so that it holds when the network loses every packet. What is past it is a lost connection: it is
    /// tried again on another one, and a commit is looked up by the next attempt's fence. Default: 30 s.
    ///
    /// The pool cannot tell that a connection is lost so, and keeps its place occupied until the operating system does
    /// (on Linux after about 15 minutes by default: `net.ipv4.tcp_retries2`).
    pub request: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            seal: Duration::from_secs(5),
            idle: Duration::from_secs(10),
            fold: Duration::from_millis(200),
            request: Duration::from_secs(30),
        }
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

    /// Begins the transaction of a handler, whose first statement is to be [`enter`](Self::enter).
    ///
    /// # Errors
    /// What the pool or the database said, or that they said nothing within [`Timeouts::request`].
    ///
    /// # Cancel safety
    /// Dropped at any time, no transaction stays open.
    pub async fn begin(&self) -> Result<OwnTransaction<DB>, sqlx::Error> {
        self.answered(DB::begin(&self.pool, self.timeouts.idle)).await
    }

    /// Commits what a handler has done, and fails if a statement that the handler overlooked has aborted it.
    ///
    /// # Errors
    /// What the database said, or that it said nothing within [`Timeouts::request`]. Whether it took effect is unknown if the
    /// error's class says so; the next [`enter`](Self::enter) of that record finds it out.
    ///
    /// # Cancel safety
    /// Dropped before its end, the outcome is unknown, but never half.
    pub async fn commit(&self, tx: OwnTransaction<DB>) -> Result<(), sqlx::Error> {
        self.answered(tx.commit()).await
    }

    /// As [`commit`](Self::commit), and begins the next handler's transaction on the same connection, in one message, for
    /// whoever has another record to handle: that saves a [`begin`](Self::begin), and the round trips with which sqlx tests a
    /// connection on its way back to the pool and out of it. `None`: committed, and nothing is begun (SQLite, where an open
    /// transaction keeps others from writing).
    ///
    /// Nothing of the transaction that was committed goes over to the next, but what lives in the session does, as it does for
    /// the next user of any pooled connection.
    ///
    /// # Errors
    /// As for [`commit`](Self::commit). Nothing is begun then.
    ///
    /// # Cancel safety
    /// Dropped before its end, the outcome is unknown, but never half, and no transaction stays open.
    pub async fn commit_and_begin(&self, tx: OwnTransaction<DB>) -> Result<Option<OwnTransaction<DB>>, sqlx::Error> {
        self.answered(tx.commit_and_begin()).await
    }

    /// What the database answers, if it does within [`Timeouts::request`].
    async fn answered<T>(&self, request: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
        answered(self.timeouts.request, request).await
    }

    fn about<'a>(&'a self, sql: &'static str, partition: &'a TopicPartition) -> Statement<'a> {
        self.place(partition).bind_to(sql)
    }

    fn place<'a>(&'a self, partition: &'a TopicPartition) -> GroupPartition<'a> {
        GroupPartition { group: &self.group, topic: partition.topic(), partition: i64::from(partition.partition()) }
    }
}

pub(crate) async fn answered<T>(
    within: Duration,
    request: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    match tokio::time::timeout(within, request).await {
        Ok(answer) => answer,
        // As the operating system says it of a connection that it has given up.
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the database did not answer in time").into()),
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

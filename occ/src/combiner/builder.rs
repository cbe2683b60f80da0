//! The limits of a combiner.

use std::fmt;
use std::time::Duration;

use leastlock_core::Backoff;
use sqlx::Pool;

use super::Combiner;
use super::apply::Apply;
use super::sql::CombinerSql;

/// The most operations that one batch may be allowed to have.
const MAX_BATCH: usize = 10_000;
/// The most operations that may be allowed to queue.
const MAX_QUEUE: usize = 1_000_000;
const MAX_COMMITTERS: usize = 64;
/// PostgreSQL's time-outs are 32-bit milliseconds.
pub(super) const MAX_TIME: Duration = Duration::from_hours(24);

/// What is bounded, and how far.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    pub(super) batch: usize,
    pub(super) queue: usize,
    pub(super) committers: usize,
    pub(super) attempts: u32,
    pub(super) backoff: Backoff,
    pub(super) lock_wait: Duration,
    pub(super) attempt_time: Duration,
    pub(super) lookup_time: Duration,
    pub(super) keep_connection: Duration,
}

/// Makes a [`Combiner`]; each limit has a default, and [`build`](Self::build) checks them.
#[derive(Clone)]
#[must_use = "nothing is made before build()"]
pub struct CombinerBuilder<DB: CombinerSql, A> {
    pool: Pool<DB>,
    apply: A,
    limits: Limits,
}

impl<DB: CombinerSql, A: Apply<DB>> CombinerBuilder<DB, A> {
    pub(super) fn new(pool: &Pool<DB>, apply: A) -> Self {
        let limits = Limits::default();
        Self { pool: pool.clone(), apply, limits }
    }

    /// The most operations of one batch; 1,024 by default. Their rows stay locked until it commits.
    pub const fn max_batch(mut self, operations: usize) -> Self {
        self.limits.batch = operations;
        self
    }

    /// The most operations that wait for their batch; 4,096 by default. Beyond it [`submit`](Combiner::submit) waits and
    /// [`try_submit`](Combiner::try_submit) refuses.
    pub const fn max_queue(mut self, operations: usize) -> Self {
        self.limits.queue = operations;
        self
    }

    /// How many batches may be under way at once; one by default. With more, an operation may overtake one that arrived
    /// before it, and batches of one process may wait for each other's rows.
    pub const fn committers(mut self, committers: usize) -> Self {
        self.limits.committers = committers;
        self
    }

    /// How often a batch is tried when a retry can help (a deadlock, a serialization failure, a lost connection), and an operation
    /// alone that waits for somebody else's lock or takes too long; and the pauses between. 10 times and [`Backoff::default`] by
    /// default.
    pub const fn attempts(mut self, attempts: u32, backoff: Backoff) -> Self {
        self.limits.attempts = attempts;
        self.limits.backoff = backoff;
        self
    }

    /// How long a batch waits for a lock that somebody else has, where the engine can bound it (PostgreSQL; MySQL and MariaDB, in
    /// whole seconds); 2 s by default. Then the batch is split, so that what need not wait goes on; both halves share the wait,
    /// and so on. So one locked row delays what is in one batch with it by that, and as much again at most for each time that
    /// the batch can be halved (ten times for 1,024 operations), however many operations want the row; on PostgreSQL once more for a
    /// batch that was first tried in one statement. Less than a second is no wait at all on MariaDB for what was split; MySQL
    /// waits for a second there, for each part.
    ///
    /// An operation that has waited alone is set aside until what has arrived since had its turn. All that were set aside are
    /// then tried again as one batch, each as often as [`attempts`](Self::attempts) says. At most as many as
    /// [`max_queue`](Self::max_queue) are set aside; beyond that they fail at once.
    pub const fn lock_wait(mut self, limit: Duration) -> Self {
        self.limits.lock_wait = limit;
        self
    }

    /// How long one attempt may take up to its commit, and the commit after it; 30 s each by default. On PostgreSQL and
    /// MariaDB the server ends the transaction of a process that has stopped after this time too; MySQL has no such bound.
    pub const fn attempt_time(mut self, limit: Duration) -> Self {
        self.limits.attempt_time = limit;
        self
    }

    /// How long the fate of a commit whose reply was lost is asked for before its operations are answered
    /// [`Unknown`](super::CombineError::Unknown); 45 s by default. Longer than [`attempt_time`](Self::attempt_time), it
    /// outlasts a transaction that was left open. Only PostgreSQL can be asked.
    pub const fn lookup_time(mut self, limit: Duration) -> Self {
        self.limits.lookup_time = limit;
        self
    }

    /// How long a committer that has nothing to do keeps its connection from the pool; 20 ms by default. Getting one for
    /// each batch costs up to two round trips; on a server two more, because a connection's own bounds of waits (and of idling, on
    /// MySQL and MariaDB) are changed while it is kept, and given back. They belong to the session: a pooler in between that shares
    /// sessions by transaction would lend them to others.
    pub const fn keep_connection(mut self, time: Duration) -> Self {
        self.limits.keep_connection = time;
        self
    }

    /// Starts the committers on the current tokio runtime.
    ///
    /// # Errors
    /// [`LimitError`] names the limit that is zero or too high.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn build(self) -> Result<Combiner<DB, A>, LimitError> {
        let Self { pool, apply, limits } = self;
        limits.check()?;
        Ok(Combiner::start(&pool, apply, &limits))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            batch: 1024,
            queue: 4096,
            committers: 1,
            attempts: 10,
            backoff: Backoff::default(),
            lock_wait: Duration::from_secs(2),
            attempt_time: Duration::from_secs(30),
            lookup_time: Duration::from_secs(45),
            keep_connection: Duration::from_millis(20),
        }
    }
}

impl Limits {
    fn check(&self) -> Result<(), LimitError> {
        let counts = [
            ("max_batch", self.batch, MAX_BATCH),
            ("max_queue", self.queue, MAX_QUEUE),
            ("committers", self.committers, MAX_COMMITTERS),
            ("attempts", self.attempts as usize, 1_000),
        ];
        for (limit, value, max) in counts {
            if !(1..=max).contains(&value) {
                return Err(LimitError { limit, range: format!("1 to {max}") });
            }
        }
        let times =
            [("lock_wait", self.lock_wait), ("attempt_time", self.attempt_time), ("lookup_time", self.lookup_time)];
        for (limit, value) in times {
            if !(Duration::from_millis(1)..=MAX_TIME).contains(&value) {
                return Err(LimitError { limit, range: "1 ms to a day".to_owned() });
            }
        }
        Ok(())
    }
}

/// A limit that no combiner can be built with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{limit} must be from {range}")]
pub struct LimitError {
    limit: &'static str,
    range: String,
}

impl<DB: CombinerSql, A> fmt::Debug for CombinerBuilder<DB, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CombinerBuilder").field("limits", &self.limits).finish_non_exhaustive()
    }
}

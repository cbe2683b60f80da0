//! The transaction of a period's work, and the mark in it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use leastlock_core::Statement;
use sqlx::{Pool, Transaction};

use super::period::{Period, database};
use crate::error::Error;
use crate::event;
use crate::fence::Protected;
use crate::kind::Efficiency;
use crate::scope::Scope;
use crate::sql::LeaseSql;

const BEGIN: &str = "begin the transaction of a period";
const MARK: &str = "mark the period as done";
/// How often a mark that was there and is gone again is tried for.
const ATTEMPTS: u32 = 3;

/// The turn of one run: nobody else is at the period, as far as the lease can tell.
///
/// What is done before [`begin`](Self::begin) is done at least once.
#[derive(Debug)]
pub struct Turn<DB: LeaseSql> {
    pool: Pool<DB>,
    period: Period,
    scope: Scope<Efficiency>,
    number: TurnNumber,
}

/// Tells a turn from every other one of this process, of this period or of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TurnNumber(u64);

impl TurnNumber {
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

impl<DB: LeaseSql> Turn<DB> {
    pub(super) fn new(pool: &Pool<DB>, period: &Period, scope: Scope<Efficiency>) -> Self {
        Self { pool: pool.clone(), period: period.clone(), scope, number: TurnNumber::next() }
    }

    pub(super) const fn number(&self) -> TurnNumber {
        self.number
    }

    /// What is done.
    #[must_use]
    pub const fn period(&self) -> &Period {
        &self.period
    }

    /// The idempotency key of what the work does outside of its transaction: the same in every run of the period, and of no other.
    #[must_use]
    pub fn key(&self) -> &str {
        self.period.name().as_str()
    }

    /// The scope of the lease: tasks of the work, and word of its end.
    #[must_use]
    pub const fn scope(&self) -> &Scope<Efficiency> {
        &self.scope
    }

    /// Begins the work's transaction, and marks the period in it, before anything else: another run that gets so far waits
    /// here until this one has ended.
    ///
    /// READ COMMITTED, and `BEGIN IMMEDIATE` on SQLite. On PostgreSQL and MariaDB the server ends it when it has idled for the lease's
    /// TTL, so that a stopped process does not keep others waiting.
    ///
    /// # Errors
    /// [`Error::PeriodDone`] if another run has committed first, which [`once`](crate::Leases::once) turns into
    /// [`Once::Done`](super::Once::Done); [`Error::Database`].
    ///
    /// # Cancel safety
    /// Dropped, no transaction stays open.
    pub async fn begin(self) -> Result<Marked<DB>, Error> {
        let idle = self.scope.held().hold().ttl();
        for _ in 0..ATTEMPTS {
            let mut tx = Protected::begin(&self.pool, idle).await.map_err(database::<DB>(BEGIN))?;
            let mark = self.period.mark(self.scope.held().nonce());
            if DB::once_mark(&mut tx, mark, idle).await.map_err(database::<DB>(MARK))? {
                return Ok(Marked { tx, turn: self });
            }
            drop(tx);
            if let Some(done) = self.period.done(&self.pool).await? {
                return Err(Error::PeriodDone { name: self.period.name().clone(), done });
            }
            // It was there, and is gone: forgotten in between.
        }
        let gone = sqlx::Error::Protocol("a mark was there and gone again, time after time".into());
        Err(Error::Database { operation: MARK, retryable: true, source: gone })
    }
}

/// A transaction in which a period is marked as done. It derefs to sqlx's [`Transaction`].
///
/// Only [`complete`](Self::complete) commits it. Dropped, it rolls back, and the period is not done.
pub struct Marked<DB: LeaseSql> {
    tx: Protected<DB>,
    turn: Turn<DB>,
}

impl<DB: LeaseSql> Marked<DB> {
    /// The turn that it belongs to.
    #[must_use]
    pub const fn turn(&self) -> &Turn<DB> {
        &self.turn
    }

    /// Commits the work and the mark of its period, and fails where the transaction was ended by an error that somebody
    /// overlooked.
    ///
    /// # Errors
    /// [`Error::Commit`]: whether it took effect may be unknown then, and the lease is left to expire. [`Error::Database`] if the
    /// mark is not in the transaction any more; nothing is committed.
    ///
    /// # Cancel safety
    /// Dropped before the `COMMIT` is sent, nothing is kept; after that, the outcome is unknown, but never half.
    pub async fn complete<T>(mut self, value: T) -> Result<Completed<T>, Error> {
        let (period, held) = (&self.turn.period, self.turn.scope.held());
        let complete = Statement::new(DB::ONCE_COMPLETE).bind(period.job()).bind(period.period());
        let complete = complete.bind(&held.nonce().as_bytes()[..]);
        match complete.execute::<DB>(&mut self.tx).await {
            Ok(0) => {
                let source = sqlx::Error::RowNotFound;
                Err(Error::Database { operation: MARK, retryable: false, source })
            }
            Ok(_) => {
                self.tx.commit().await?;
                event::period_done(held);
                Ok(Completed { value, turn: self.turn.number })
            }
            Err(source) => Err(database::<DB>(MARK)(source)),
        }
    }
}

impl<DB: LeaseSql> Deref for Marked<DB> {
    type Target = Transaction<'static, DB>;

    fn deref(&self) -> &Self::Target {
        &self.tx
    }
}

impl<DB: LeaseSql> DerefMut for Marked<DB> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.tx
    }
}

impl<DB: LeaseSql> fmt::Debug for Marked<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Marked").field("period", &self.turn.period).finish_non_exhaustive()
    }
}

/// What work answers that was committed with the mark of its period. It comes from [`Marked::complete`] alone, so that work that
/// forgets to complete does not compile.
///
/// ```compile_fail,E0308
/// # async fn forgets(leases: leastlock_lease::Leases<leastlock_lease::SqlLeaseStore<sqlx::Sqlite>>,
/// #     pool: sqlx::SqlitePool, day: leastlock_lease::Period, hold: leastlock_lease::Hold) {
/// let _ = leases.once(&pool, &day, hold, async |turn| {
///     turn.begin().await?;
///     Ok(())
/// }).await;
/// # }
/// ```
///
/// It is of one turn, and proves nothing of another, so it can be neither copied nor handed on: [`once`](crate::Leases::once) takes none but
/// that of its own turn.
///
/// ```compile_fail,E0599
/// # fn copies(completed: leastlock_lease::Completed<u64>) {
/// let copy = completed.clone();
/// # }
/// ```
#[derive(Debug)]
pub struct Completed<T> {
    value: T,
    turn: TurnNumber,
}

impl<T> Completed<T> {
    /// The value, if it is of this turn.
    pub(super) fn of(self, turn: TurnNumber) -> Option<T> {
        (self.turn == turn).then_some(self.value)
    }
}

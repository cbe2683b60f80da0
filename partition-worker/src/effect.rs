//! Where the effect of a record goes.

use sqlx::Pool;

use crate::error::Error;
use crate::on_failure::OnFailure;
use crate::progress::Timeouts;
use crate::sql::WorkerSql;

/// Where the effect of a record goes, which decides what a worker can promise and what its handler looks like.
#[derive(Debug)]
pub struct Effect<M: Mode> {
    pub(crate) mode: M,
}

/// The effect is in a database, together with the mark that the record is finished: it is there exactly once.
#[derive(Debug)]
pub struct InDatabase<DB: WorkerSql> {
    pub(crate) pool: Pool<DB>,
    pub(crate) timeouts: Timeouts,
}

/// The effect is anywhere, and what is finished is in Kafka's commit: each record is processed at least once.
#[derive(Debug)]
pub struct AtLeastOnce(());

/// A kind of [`Effect`]. Sealed.
pub trait Mode: sealed::Mode {}

impl<DB: WorkerSql> Effect<InDatabase<DB>> {
    /// Into the database of this pool, where [`MIGRATIONS`](crate::MIGRATIONS) have been applied.
    ///
    /// The pool should have two connections more than the worker's [concurrency](crate::Builder::concurrency).
    /// How long the worker waits for the database is in [`Timeouts`].
    #[must_use]
    pub fn in_database(pool: &Pool<DB>) -> Self {
        Self { mode: InDatabase { pool: pool.clone(), timeouts: Timeouts::default() } }
    }

    /// The same with other time-outs.
    #[must_use]
    pub fn timeouts(self, timeouts: Timeouts) -> Self {
        Self { mode: InDatabase { timeouts, ..self.mode } }
    }
}

impl<DB: WorkerSql> Mode for InDatabase<DB> {}

impl<DB: WorkerSql> sealed::Mode for InDatabase<DB> {
    fn check(&self, _: &OnFailure) -> Result<(), Error> {
        let Timeouts { seal, idle, fold, request } = self.timeouts;
        if [seal, idle, fold, request].iter().any(std::time::Duration::is_zero) {
            // PostgreSQL takes zero for no limit at all.
            return Err(Error::Setting { setting: "timeouts", problem: "must not be zero" });
        }
        Ok(())
    }
}

impl Effect<AtLeastOnce> {
    /// Anywhere, at least once: no database is needed, and the worker's handler is a [`Process`](crate::Process).
    ///
    /// What is finished is committed to Kafka every [`commit_every`](crate::Builder::commit_every): the offset below which
    /// everything is finished and, in the commit's metadata, what is finished above. After a crash, records are processed
    /// again that were finished since the last commit, or that the metadata had no room for, and no others. At a
    /// revocation handlers may finish for [`revoke_timeout`](crate::Builder::revoke_timeout), so that mostly none is.
    ///
    /// Two owners can process one record at the same time: one that has lost its partition without knowing goes on for a
    /// while. Where that must not take effect twice, use [`in_database`](Self::in_database), or an idempotency key.
    #[must_use]
    pub const fn at_least_once() -> Self {
        Self { mode: AtLeastOnce(()) }
    }
}

impl Mode for AtLeastOnce {}

impl sealed::Mode for AtLeastOnce {
    fn check(&self, on_failure: &OnFailure) -> Result<(), Error> {
        match on_failure {
            OnFailure::Stop | OnFailure::Skip | OnFailure::DeadLetter(_) => Ok(()),
            OnFailure::ParkKey(_) => {
                let problem = "cannot park keys without a database, in which it is kept what is parked";
                Err(Error::Setting { setting: "on_failure", problem })
            }
        }
    }
}

mod sealed {
    use super::{Error, OnFailure};

    pub trait Mode {
        /// Whether a worker of this kind can be built with this policy.
        fn check(&self, on_failure: &OnFailure) -> Result<(), Error>;
    }
}

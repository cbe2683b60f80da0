//! Where the effect of a record goes.

use sqlx::Pool;

use crate::progress::Timeouts;
use crate::sql::WorkerSql;

/// Where the effect of a record goes: into a database, together with the mark that the record is finished.
#[derive(Debug)]
pub struct Effect<DB: WorkerSql> {
    pub(crate) pool: Pool<DB>,
    pub(crate) timeouts: Timeouts,
}

impl<DB: WorkerSql> Effect<DB> {
    /// Into the database of this pool, where [`MIGRATIONS`](crate::MIGRATIONS) have been applied.
    ///
    /// The pool should have two connections more than the worker's [concurrency](crate::Builder::concurrency).
    /// How long the worker waits for the database is in [`Timeouts`].
    #[must_use]
    pub fn in_database(pool: &Pool<DB>) -> Self {
        Self { pool: pool.clone(), timeouts: Timeouts::default() }
    }

    /// The same with other time-outs.
    #[must_use]
    pub fn timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }
}

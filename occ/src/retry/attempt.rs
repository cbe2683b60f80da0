//! One attempt at a unit of work, which owns its transaction.

use std::fmt;

use leastlock_core::{Dialect, ErrorClass};
use sqlx::Transaction;

use crate::error::Error;

/// One attempt at a unit of work. Dropped, it is rolled back.
pub struct Attempt<DB: Dialect> {
    tx: Transaction<'static, DB>,
    number: u32,
}

impl<DB: Dialect> Attempt<DB> {
    pub(super) fn new(tx: Transaction<'static, DB>, number: u32) -> Self {
        Self { tx, number }
    }

    /// The transaction of this attempt.
    pub fn tx(&mut self) -> &mut Transaction<'static, DB> {
        &mut self.tx
    }

    /// The connection with the transaction: what `load`, `update` and sqlx's own queries take.
    pub fn connection(&mut self) -> &mut DB::Connection {
        &mut self.tx
    }

    /// Which attempt this is, from 1.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Commits, and answers `value` as what a committed unit of work answers.
    ///
    /// On PostgreSQL and MySQL this costs a round trip more than a bare `COMMIT`, which both would report as done for a
    /// transaction that an ignored error has ended.
    ///
    /// # Errors
    /// - [`Error::CommitUnknown`] if the reply was lost: the commit may have taken effect. No retry follows.
    /// - [`Error::TransactionEnded`] if an error in the transaction was ignored and has ended it.
    /// - [`Error::Database`]; a serialization failure or SQLite's busy at the commit is a conflict like any other.
    ///
    /// # Cancel safety
    /// Dropped half-way, the outcome is unknown.
    pub async fn commit<T>(mut self, value: T) -> Result<Committed<T>, Error> {
        DB::probe(&mut self.tx).await.map_err(|source| match Error::database::<DB>(source) {
            Error::Database { class: ErrorClass::Other, source } => Error::TransactionEnded { source },
            error => error,
        })?;
        match self.tx.commit().await.map_err(Error::database::<DB>) {
            Ok(()) => Ok(Committed(value)),
            Err(Error::Database { class, source }) if class.leaves_commit_unknown() => {
                Err(Error::CommitUnknown { source })
            }
            Err(error) => Err(error),
        }
    }
}

impl<DB: Dialect> fmt::Debug for Attempt<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The value of a unit of work that has committed. Only [`Attempt::commit`] makes one, so a unit cannot forget to.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the retry answers with its value"]
pub struct Committed<T>(pub(super) T);

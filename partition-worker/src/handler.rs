//! What an application writes: a handler, and how it fails.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;

use sqlx::Transaction;

use leastlock_core::Dialect;

use crate::record::{Malformed, Record};

/// Turns a record into its effect.
///
/// # Contract
/// - The worker calls it for one record of a key at a time, in offset order; for different keys at the same time.
/// - Whatever it writes through `tx` takes effect exactly once for each record: the transaction also marks the record as
///   finished, and cannot commit once another worker has taken the partition over. It may be *called* more than once, after a
///   failure, a rollback or a change of owner, so what it does outside of `tx` must bear being done again.
/// - It must not commit, roll back, or change the isolation level of `tx` by SQL of its own. Savepoints are fine.
/// - It must return the errors of its statements. On PostgreSQL a statement that fails aborts the whole transaction, so a
///   handler that ignores one and answers `Ok` has nothing left to commit: its attempt fails. A statement that may fail,
///   such as an insert that may meet a unique key, belongs in a savepoint, or gets an `ON CONFLICT`.
/// - When it returns an error, what it wrote is rolled back, and it is called again after a pause, in its lane; a panic is
///   treated the same. While it waits, other keys go on and the later records of its own key do not.
/// - When its future is dropped, which happens when the partition is lost and at the end of a shutdown's drain, the transaction
///   is rolled back.
/// - It should not wait long for anything but the database: while a handler runs it holds a connection, and on PostgreSQL
///   a transaction that is idle for longer than [`Timeouts::idle`](crate::progress::Timeouts::idle) is ended by the server,
///   which costs an attempt, as does a statement beyond the server's `statement_timeout`. An attempt beyond the worker's
///   `handler_timeout` (5 min by default) is cancelled, and has failed.
///
/// ```
/// # #[cfg(feature = "sqlite")] mod ledger {
/// use leastlock_partition_worker::{Failure, Handler, Record};
/// use sqlx::{Sqlite, Transaction};
///
/// struct Ledger;
///
/// impl Handler<Sqlite> for Ledger {
///     async fn handle(&self, record: &Record, tx: &mut Transaction<'_, Sqlite>) -> Result<(), Failure> {
///         let units: i64 = record.json()?;
///         sqlx::query("UPDATE ledger SET units = units + ? WHERE code = ?")
///             .bind(units)
///             .bind(record.key())
///             .execute(&mut **tx)
///             .await?;
///         Ok(())
///     }
/// }
/// # }
/// ```
pub trait Handler<DB: Dialect>: Send + Sync + 'static {
    /// Handles one record.
    fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>)
    -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Turns many records of a partition into their effect, in one transaction.
///
/// A small effect costs less than the transaction around it, so for such this is the mode to choose: one `BEGIN`, one fence and
/// one commit for up to [`max_batch`](crate::Builder::max_batch) records.
///
/// # Contract
/// As for a [`Handler`], but for this:
/// - It is called for records of one partition, of one key or many, in the order of their offsets. Of a key the batch has those
///   that come next, and no other batch has any of it at the time.
/// - The batch takes effect as a whole or not at all. When it fails, and it had more than one record, no attempt of any record is
///   counted; it is called for smaller batches of the same records, until the one that fails is alone. One that the
///   [failure](BatchFailure::at) names is alone at once.
/// - The worker's `handler_timeout` is that of the batch.
///
/// ```
/// # #[cfg(feature = "sqlite")] mod ledger {
/// use leastlock_partition_worker::{BatchFailure, BatchHandler, Record};
/// use sqlx::{QueryBuilder, Sqlite, Transaction};
///
/// struct Ledger;
///
/// impl BatchHandler<Sqlite> for Ledger {
///     async fn handle(&self, batch: &[Record], tx: &mut Transaction<'_, Sqlite>) -> Result<(), BatchFailure> {
///         let moves = batch.iter().map(|record| Ok((record.key(), record.json()?))).collect::<Result<Vec<_>, BatchFailure>>()?;
///         let mut insert = QueryBuilder::new("INSERT INTO moves (code, units) ");
///         insert.push_values(moves, |mut row, (code, units): (_, i64)| {
///             row.push_bind(code).push_bind(units);
///         });
///         insert.build().execute(&mut **tx).await?;
///         Ok(())
///     }
/// }
/// # }
/// ```
pub trait BatchHandler<DB: Dialect>: Send + Sync + 'static {
    /// Handles some records; there is at least one.
    fn handle(
        &self,
        batch: &[Record],
        tx: &mut Transaction<'_, DB>,
    ) -> impl Future<Output = Result<(), BatchFailure>> + Send;
}

/// Why a batch failed. Made with `?` from any error, and from a [`Failure`].
#[derive(Debug)]
pub struct BatchFailure {
    pub(crate) failure: Failure,
    pub(crate) at: Option<i64>,
}

impl BatchFailure {
    /// The failure of this record of the batch, which is then tried alone, and the others without it. A [`Malformed`] value
    /// names its record by itself.
    #[must_use]
    pub fn at(record: &Record, failure: impl Into<Failure>) -> Self {
        Self { failure: failure.into(), at: Some(record.offset()) }
    }

    /// Why.
    #[must_use]
    pub const fn failure(&self) -> &Failure {
        &self.failure
    }

    /// The offset of the record that it names.
    #[must_use]
    pub const fn offset(&self) -> Option<i64> {
        self.at
    }
}

impl fmt::Display for BatchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for BatchFailure {
    fn from(error: E) -> Self {
        let at = (&error as &dyn Any).downcast_ref::<Malformed>().map(Malformed::offset);
        Self { failure: error.into(), at }
    }
}

impl From<Failure> for BatchFailure {
    fn from(failure: Failure) -> Self {
        Self { failure, at: None }
    }
}

/// Processes a record where there is no database that its effect and the mark of being finished could share.
///
/// # Contract
/// - The worker calls it for one record of a key at a time, in offset order; for different keys at the same time.
/// - Each record is processed **at least once**: after a crash, a lost session, or a revocation that did not leave it enough
///   time, it is called again for records that it has processed. So what it does must bear being done again.
/// - When it returns an error it is called again after a pause, in its lane; a panic is treated the same. While it waits,
///   other keys go on and the later records of its own key do not.
/// - Its future is dropped when the partition is taken back and a short time to finish is over, when it is lost, at the end
///   of a shutdown's drain, and after the worker's `handler_timeout` (5 min by default), which counts as a failure.
///
/// ```
/// use leastlock_partition_worker::{Failure, Process, Record};
///
/// struct Printer;
///
/// impl Process for Printer {
///     async fn process(&self, record: &Record) -> Result<(), Failure> {
///         println!("{}", record.text()?);
///         Ok(())
///     }
/// }
/// ```
pub trait Process: Send + Sync + 'static {
    /// Processes one record.
    fn process(&self, record: &Record) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl<DB: Dialect, H: Handler<DB>> Handler<DB> for std::sync::Arc<H> {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        H::handle(self, record, tx).await
    }
}

impl<DB: Dialect, H: BatchHandler<DB>> BatchHandler<DB> for std::sync::Arc<H> {
    async fn handle(&self, batch: &[Record], tx: &mut Transaction<'_, DB>) -> Result<(), BatchFailure> {
        H::handle(self, batch, tx).await
    }
}

impl<H: Process> Process for std::sync::Arc<H> {
    async fn process(&self, record: &Record) -> Result<(), Failure> {
        H::process(self, record).await
    }
}

/// Why a handler failed. Made with `?` from any error.
///
/// A failure is retried, except where trying again meets the same: what [`permanent`](Self::permanent) made, and a
/// [`Malformed`] record. It deliberately does not implement [`std::error::Error`], so that every error can become one.
pub struct Failure {
    cause: Box<dyn StdError + Send + Sync>,
    permanent: bool,
}

impl Failure {
    /// A failure that may pass.
    pub fn retry(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { cause: cause.into(), permanent: false }
    }

    /// A failure that every further attempt would meet.
    pub fn permanent(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { cause: cause.into(), permanent: true }
    }

    /// Whether a further attempt is pointless.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        self.permanent
    }

    /// The cause.
    #[must_use]
    pub fn cause(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.cause
    }

    /// The cause.
    #[must_use]
    pub fn into_cause(self) -> Box<dyn StdError + Send + Sync> {
        self.cause
    }

    /// The database error among its causes.
    #[cfg(feature = "kafka")]
    pub(crate) fn database_error(&self) -> Option<&sqlx::Error> {
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&*self.cause);
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            cause = error.source();
        }
        None
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure").field("cause", &self.cause).field("permanent", &self.permanent).finish()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let permanent = (&error as &dyn Any).is::<Malformed>();
        Self { cause: Box::new(error), permanent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batchs_failure_names_a_malformed_record_by_itself() {
        let malformed = Record::new("t", 0, 7).text().expect_err("a tombstone has no text");
        let failure = BatchFailure::from(malformed);
        assert_eq!((failure.offset(), failure.failure().is_permanent()), (Some(7), true));
        assert_eq!(BatchFailure::from(std::io::Error::other("the line is busy")).offset(), None);
        assert_eq!(BatchFailure::at(&Record::new("t", 0, 8), Failure::retry("later")).offset(), Some(8));
    }

    #[test]
    fn a_malformed_record_is_not_retried_and_any_other_error_is() {
        let malformed = Record::new("t", 0, 0).text().expect_err("a tombstone has no text");
        assert!(Failure::from(malformed).is_permanent());
        assert!(!Failure::from(std::io::Error::other("the line is busy")).is_permanent());
        assert!(!Failure::retry("later").is_permanent());
        assert!(Failure::permanent("never").is_permanent());
    }
}

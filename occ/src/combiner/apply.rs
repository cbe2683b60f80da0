//! The one function that applies a batch.

use std::future::Future;

use sqlx::Transaction;

use super::batch::Batch;
use super::error::BatchError;
use super::sql::CombinerSql;

/// Applies a batch of operations inside a transaction.
///
/// # Contract
/// - [`apply`](Self::apply) answers every operation as if the operations had come one by one, in the order of the batch: an
///   operation that has to refuse is answered so, and the others are not touched by it.
/// - It reads and writes through `tx` only, and does not commit. It may be called again with the same operations after a
///   rollback, or with some of them: whatever it does outside the transaction can happen more than once.
/// - It locks rows in one order, the same in every process (such as that of their keys), and uses a number of statements
///   that does not grow with the batch, or the batch gains nothing.
/// - An error means that nothing may be committed. One that no retry can help splits the batch until the operation that
///   causes it is alone.
/// - What it answers is committed, also when it has written no row that the server knows of (a notification, a row on another
///   server), unless it says [`wrote_nothing`](Batch::wrote_nothing) itself.
pub trait Apply<DB: CombinerSql>: Send + Sync + 'static {
    /// What a caller submits.
    type Operation: Send + Sync + 'static;
    /// What it is answered with.
    type Answer: Send + 'static;

    /// Applies the operations of `batch` and answers each of them.
    ///
    /// # Cancel safety
    /// The future is dropped when the batch exceeds its limit of time or the combiner is closed: the transaction is then
    /// rolled back.
    fn apply(
        &self,
        tx: &mut Transaction<'_, DB>,
        batch: &mut Batch<Self::Operation, Self::Answer>,
    ) -> impl Future<Output = Result<(), BatchError>> + Send;

    /// Applies the operations of a batch at its first attempt in *one* statement, outside of a transaction, and answers all
    /// of them in their order: one round trip, so that a single client pays no more than without a combiner. The statement
    /// applies all of them or changes nothing.
    ///
    /// `None` has them applied in a transaction instead: where there is no such statement, or where it changed nothing. An
    /// error that tells that nothing was committed has the same effect: one with which the database refused the statement (a
    /// lock that was not had in time, a key that is there already; on PostgreSQL also a cancelled statement, `57014`), and one
    /// of the application's own. Any other leaves it open, [`BatchError::TimedOut`] and an answer that cannot be read included:
    /// it is resolved as [`Combiner`](super::Combiner) says, without a transaction to look up.
    ///
    /// A wait for a lock is bounded here as it is in a transaction
    /// ([`lock_wait`](super::CombinerBuilder::lock_wait)). Where the statement can pass over locked rows it should: the
    /// transaction that follows waits for them as well. What was split because of a lock is not tried in one statement.
    ///
    /// # Cancel safety
    /// The future is dropped when it exceeds its limit of time or the combiner is closed; whether the statement took effect is
    /// then unknown.
    fn apply_at_once(
        &self,
        connection: &mut DB::Connection,
        operations: &[Self::Operation],
    ) -> impl Future<Output = Result<Option<Vec<Self::Answer>>, BatchError>> + Send;

    /// Whether applying `operation` once more, after it may or may not have been committed, has no further effect and
    /// answers as the first time: it carries an order id, or sets something to a value. When a reply was lost, such an operation
    /// is applied again, so that it is [`Unknown`](super::CombineError::Unknown) only if all attempts were used up without an
    /// answer, or the combiner was closed meanwhile.
    fn absorbs_repeats(&self, operation: &Self::Operation) -> bool;
}

//! What is written in the transaction of the movements.

use std::future::Future;

use sqlx::Transaction;

use super::movement::Movement;
use crate::combiner::{BatchError, CombinerSql};

/// Writes something in the transaction that applies movements: an order line, an event for the outbox.
///
/// # Contract
/// - Called once a batch, after the rows are locked and before they are changed, with the movements that are applied in this
///   transaction for the first time; never for refused ones and never for repeats. If it is not committed, neither are they.
/// - Uses a number of statements that does not grow with the batch (such as one `INSERT … SELECT … FROM unnest(…)`), and takes
///   locks in one order, the same in every process.
/// - May be called again with the same movements, or some of them, after a rollback.
/// - Order ids are stored after this, so another process that stores one at the same moment may be found out only then;
///   everything is rolled back and decided anew, with that movement a repeat. A unique key of its own over such ids would meet
///   the other's row first, as an error that fails the movement: so insert with `ON CONFLICT DO NOTHING`, and answer
///   [`BatchError::Raced`] when fewer rows were inserted than there are movements. (On MySQL and MariaDB, a plain `INSERT` and
///   `Raced` for its duplicate key.)
pub trait Beside<DB: CombinerSql>: Send + Sync + 'static {
    /// What a caller hands over with its movement.
    type Note: Send + Sync + 'static;

    /// Writes what belongs to these movements, in the order of their arrival; at least one.
    fn write(
        &self,
        tx: &mut Transaction<'_, DB>,
        applied: &[&Movement<Self::Note>],
    ) -> impl Future<Output = Result<(), BatchError>> + Send;
}

/// Writes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl<DB: CombinerSql> Beside<DB> for Nothing {
    type Note = ();

    async fn write(&self, _tx: &mut Transaction<'_, DB>, _applied: &[&Movement]) -> Result<(), BatchError> {
        Ok(())
    }
}

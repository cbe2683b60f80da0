//! Transactions of the library's own: begun so that a dropped future leaves nothing open, committed so that an aborted
//! transaction cannot pass for a committed one.

use sqlx::{Pool, Transaction};

use crate::dialect::Dialect;

/// Begins a transaction with [`Dialect::BEGIN_WRITE`].
///
/// # Errors
/// What the pool or the database said.
///
/// # Cancel safety
/// Dropped at any time, no transaction stays open. sqlx itself does not promise that: a `BEGIN` whose reply is still under way
/// is not rolled back, and the connection goes back to its pool inside a transaction. So it runs in a task of its own.
pub async fn begin<DB: Dialect>(pool: &Pool<DB>) -> Result<Transaction<'static, DB>, sqlx::Error> {
    let pool = pool.clone();
    // If this future is dropped the task goes on, and what it answers with, a whole transaction, is dropped: rolled back.
    let begun = tokio::spawn(async move { pool.begin_with(DB::BEGIN_WRITE).await });
    match begun.await {
        Ok(begun) => begun,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is shutting down.
        Err(_) => Err(sqlx::Error::PoolClosed),
    }
}

/// Commits, and fails where the transaction was aborted by an error that somebody overlooked.
///
/// PostgreSQL answers the `COMMIT` of an aborted transaction with `ROLLBACK`, which sqlx takes for success. A statement before
/// it fails there (`25P02`). It costs a round trip.
///
/// # Errors
/// What the database said. Whether the commit took effect is unknown if the error's class says so
/// ([`ErrorClass::leaves_commit_unknown`](crate::ErrorClass::leaves_commit_unknown)).
///
/// # Cancel safety
/// Dropped before the `COMMIT` is sent, nothing is kept; after that, the outcome is unknown, but never half.
pub async fn commit<DB: Dialect>(mut tx: Transaction<'_, DB>) -> Result<(), sqlx::Error> {
    if let Some(probe) = DB::COMMIT_PROBE {
        DB::run_query(&mut tx, sqlx::query(probe)).await?;
    }
    tx.commit().await
}

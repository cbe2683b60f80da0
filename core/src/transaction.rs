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
    in_a_task(pool, DB::BEGIN_WRITE, false).await
}

/// Begins a transaction with a statement of the caller's, such as one that names another isolation level.
///
/// # Errors
/// What the pool or the database said.
///
/// # Cancel safety
/// As for [`begin`].
pub async fn begin_with<DB: Dialect>(
    pool: &Pool<DB>,
    statement: &'static str,
) -> Result<Transaction<'static, DB>, sqlx::Error> {
    in_a_task(pool, statement, true).await
}

async fn in_a_task<DB: Dialect>(
    pool: &Pool<DB>,
    statement: &'static str,
    needs_mark: bool,
) -> Result<Transaction<'static, DB>, sqlx::Error> {
    let pool = pool.clone();
    // If this future is dropped the task goes on, and what it answers with, a whole transaction, is dropped: rolled back.
    let begun = tokio::spawn(async move {
        let mut tx = pool.begin_with(statement).await?;
        if needs_mark {
            DB::mark(&mut tx).await?;
        }
        Ok(tx)
    });
    match begun.await {
        Ok(begun) => begun,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is shutting down.
        Err(_) => Err(sqlx::Error::PoolClosed),
    }
}

/// Commits a transaction of [`begin`] or [`begin_with`], and fails where it was aborted or ended by an error that somebody
/// overlooked.
///
/// PostgreSQL answers the `COMMIT` of an aborted transaction with `ROLLBACK`, which sqlx takes for success; MySQL commits nothing, with
/// success, once a deadlock has ended the transaction. A statement before it fails there ([`Dialect::probe`]). It costs a
/// round trip.
///
/// A transaction of sqlx's own `begin()` has no mark that tells, so on MySQL it is refused here as well.
///
/// # Errors
/// What the database said. Whether the commit took effect is unknown if the error's class says so
/// ([`ErrorClass::leaves_commit_unknown`](crate::ErrorClass::leaves_commit_unknown)).
///
/// # Cancel safety
/// Dropped before the `COMMIT` is sent, nothing is kept; after that, the outcome is unknown, but never half.
pub async fn commit<DB: Dialect>(mut tx: Transaction<'_, DB>) -> Result<(), sqlx::Error> {
    DB::probe(&mut tx).await?;
    tx.commit().await
}

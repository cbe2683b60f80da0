//! Transactions of the library's own: begun so that a dropped future leaves nothing open, committed so that an aborted
//! transaction cannot pass for a committed one.

use sqlx::{Pool, Transaction};

use crate::dialect::Dialect;
use crate::to_its_end::to_its_end;

/// Begins a transaction with [`Dialect::BEGIN_WRITE`].
///
/// # Errors
/// What the pool or the database said.
///
/// # Cancel safety
/// Dropped at any time, no transaction stays open. sqlx itself does not promise that: a `BEGIN` whose reply is still under way
/// is not rolled back, and the connection goes back to its pool inside a transaction. So it is brought to its end all the same.
pub async fn begin<DB: Dialect>(pool: &Pool<DB>) -> Result<Transaction<'static, DB>, sqlx::Error> {
    begun(pool, DB::BEGIN_WRITE, false).await
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
    begun(pool, statement, true).await
}

async fn begun<DB: Dialect>(
    pool: &Pool<DB>,
    statement: &'static str,
    needs_mark: bool,
) -> Result<Transaction<'static, DB>, sqlx::Error> {
    let pool = pool.clone();
    // Dropped before its end, this goes on, and what it comes to, a whole transaction, is dropped: rolled back.
    to_its_end(async move {
        let mut tx = pool.begin_with(statement).await?;
        if needs_mark {
            DB::mark(&mut tx).await?;
        }
        Ok(tx)
    })
    .await
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

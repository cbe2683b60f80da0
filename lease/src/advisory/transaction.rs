//! An advisory lock of the caller's transaction.

use std::time::Duration;

use leastlock_core::{ErrorClass, Statement, classify};
use sqlx::{Connection, Database, Postgres, Transaction};
use sqlx_core::transaction::TransactionManager;

use super::{DEFAULT_NAMESPACE, key};
use crate::error::Error;
use crate::lock_name::LockName;
use crate::sql::LONGEST_SETTING;
use crate::store::milliseconds;

/// Takes the advisory lock of this name for the caller's transaction, waiting up to `wait` for another one that has it; answers
/// whether it has it now. It ends with the transaction, however that ends, so there is nothing to release and nothing to lose: as
/// long as the transaction can commit, it has the lock. PostgreSQL only: the user locks of MariaDB know no transactions.
///
/// It is no lease. It keeps others out who ask for it too, for as long as the transaction lasts; what it protects should be done in
/// this transaction, and nothing outside should be waited for meanwhile. Where a row stands for what is protected, `SELECT … FOR UPDATE`
/// on that row says it better. It is one lock with [`AdvisoryLeaseStore`](crate::AdvisoryLeaseStore)'s of the same name in the
/// default namespace.
///
/// Taken inside of a savepoint it would end with the rollback of that, and the transaction around it would go on without it; so it is
/// refused there. A savepoint that was set by hand cannot be seen.
///
/// A wait of zero does not wait. One that is not zero sets a savepoint, and leaves the transaction's `lock_timeout` as it was.
///
/// ```no_run
/// use std::time::Duration;
/// use leastlock_lease::{LockName, lock_in_transaction};
///
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = pool.begin().await?;
/// if lock_in_transaction(&mut tx, &LockName::new("report:tenant-7")?, Duration::from_secs(2)).await? {
///     // … alone, until the end of the transaction
///     tx.commit().await?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Savepoint`]; [`Error::Database`]; of those that are retryable the transaction may have ended.
///
/// # Cancel safety
/// Dropped, the transaction may have the lock, and the savepoint is rolled back at its next statement.
pub async fn lock_in_transaction(
    tx: &mut Transaction<'_, Postgres>,
    name: &LockName,
    wait: Duration,
) -> Result<bool, Error> {
    if <Postgres as Database>::TransactionManager::get_transaction_depth(tx) > 1 {
        return Err(Error::Savepoint { resource: name.as_str().into() });
    }
    locked(tx, key(DEFAULT_NAMESPACE, name), wait).await.map_err(|source| Error::Database {
        operation: "take an advisory lock",
        retryable: classify::<Postgres>(&source).is_retryable(),
        source,
    })
}

async fn locked(tx: &mut Transaction<'_, Postgres>, key: i64, wait: Duration) -> Result<bool, sqlx::Error> {
    let attempt = Statement::new(include_str!("../../sql/postgres/advisory/transaction_try.sql")).bind(key);
    if attempt.fetch_one::<Postgres>(tx).await?.int(0)? == 1 {
        return Ok(true);
    }
    if wait.is_zero() {
        return Ok(false);
    }
    // A time-out ends the transaction that it happens in.
    let mut savepoint = tx.begin().await?;
    let waits = Statement::new(include_str!("../../sql/postgres/advisory/transaction_wait.sql")).bind(key);
    match waits.bind(milliseconds(wait.min(LONGEST_SETTING)).max(1)).fetch_one::<Postgres>(&mut savepoint).await {
        Ok(_locked) => savepoint.commit().await.map(|()| true),
        Err(error) if classify::<Postgres>(&error) == ErrorClass::LockTimeout => {
            savepoint.rollback().await.map(|()| false)
        }
        Err(error) => Err(error),
    }
}

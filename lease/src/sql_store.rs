//! The lock store in an SQL table.

use std::time::Duration;

use leastlock_core::{Dialect, Statement, begin, classify};
use sqlx::Pool;

use crate::sql::LeaseSql;
use crate::store::{
    Capabilities, Claim, FencedStore, Grant, Holder, LeaseStore, Polling, Release, Renewal, StoreError,
};
use crate::token::{FencingToken, OwnerHash};

/// The lock store in the table `leastlock_lease`.
///
/// Its tokens are monotonic and durable: they stand in the row of the lock, which outlives every lease, and are as durable
/// as the database's commits (on PostgreSQL `synchronous_commit` must not be `off`; on SQLite `synchronous` should be
/// `FULL` if tokens must outlive a power failure). It has no queue: waiters poll, and whoever asks first gets a free lock.
///
/// An attempt to acquire is one transaction with one statement, and a second one that reads the holder if somebody else
/// has the lock.
#[derive(Debug)]
pub struct SqlLeaseStore<DB: Dialect> {
    pool: Pool<DB>,
}

impl<DB: LeaseSql> SqlLeaseStore<DB> {
    /// A store in the database of `pool`, which must have this crate's [`MIGRATIONS`](crate::MIGRATIONS).
    #[must_use]
    pub fn new(pool: &Pool<DB>) -> Self {
        Self { pool: pool.clone() }
    }

    async fn try_acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, sqlx::Error> {
        let mut tx = begin(&self.pool).await?;
        let granted = Statement::new(DB::ACQUIRE)
            .bind(claim.name.as_str())
            .bind(&claim.nonce.as_bytes()[..])
            .bind(milliseconds(claim.ttl))
            .bind(claim.floor.map_or(0, FencingToken::value))
            .bind(claim.job)
            .fetch_optional::<DB>(&mut tx)
            .await?;
        let grant = if let Some(row) = granted {
            Grant::Granted { token: token(row.int(0)?)?, ttl: claim.ttl }
        } else {
            let row = Statement::new(DB::HOLDER).bind(claim.name.as_str()).fetch_one::<DB>(&mut tx).await?;
            Grant::Held(Holder {
                owner: OwnerHash::of(&row.bytes(0)?),
                token: Some(token(row.int(1)?)?),
                age: duration(row.int(2)?),
                remaining: duration(row.int(3)?),
                job: row.optional_text(4)?.map(String::into_boxed_str),
            })
        };
        tx.commit().await?;
        Ok(grant)
    }

    async fn change(&self, statement: Statement<'_>) -> Result<bool, sqlx::Error> {
        let mut tx = begin(&self.pool).await?;
        let changed = statement.execute::<DB>(&mut tx).await?;
        tx.commit().await?;
        Ok(changed > 0)
    }
}

impl<DB: Dialect> Clone for SqlLeaseStore<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone() }
    }
}

impl<DB: LeaseSql> LeaseStore for SqlLeaseStore<DB> {
    type Token = FencingToken;
    type Waiter = Polling;

    const CAPABILITIES: Capabilities = Capabilities::PLAIN;

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        self.try_acquire(claim).await.map_err(store_error::<DB>)
    }

    fn waiter(&self, _claim: Claim<'_>) -> Polling {
        Polling
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        let statement = Statement::new(DB::RENEW)
            .bind(claim.name.as_str())
            .bind(&claim.nonce.as_bytes()[..])
            .bind(token.value())
            .bind(milliseconds(claim.ttl));
        let renewed = self.change(statement).await.map_err(store_error::<DB>)?;
        Ok(if renewed { Renewal::Renewed { ttl: claim.ttl } } else { Renewal::NotOwner })
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        let statement = Statement::new(DB::RELEASE).bind(claim.name.as_str()).bind(&claim.nonce.as_bytes()[..]);
        let released = self.change(statement).await.map_err(store_error::<DB>)?;
        Ok(if released { Release::Released } else { Release::NotOwner })
    }

    /// Its time in the row ends it.
    fn let_expire(&self, _claim: Claim<'_>, _remaining: Duration) {}
}

impl<DB: LeaseSql> FencedStore for SqlLeaseStore<DB> {}

fn store_error<DB: LeaseSql>(error: sqlx::Error) -> StoreError {
    if classify::<DB>(&error).is_retryable() { StoreError::retryable(error) } else { StoreError::permanent(error) }
}

fn token(value: i64) -> Result<FencingToken, sqlx::Error> {
    FencingToken::new(value).ok_or_else(|| sqlx::Error::Decode("a fencing token below 1".into()))
}

/// Whole milliseconds, rounded down: a lease is never longer than was asked for.
pub(crate) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn duration(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

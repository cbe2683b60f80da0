//! The lock store in an SQL table.

use std::time::Duration;

use leastlock_core::{Dialect, Statement, classify};
use sqlx::Pool;
use sqlx::pool::PoolConnection;

use crate::capabilities::Capabilities;
use crate::sql::LeaseSql;
use crate::store::{Claim, FencedStore, Grant, Holder, LeaseStore, Release, Renewal, StoreError, milliseconds};
use crate::token::{FencingToken, OwnerHash};
use crate::wake::Bells;

/// The lock store in the table `leastlock_lease`.
///
/// Its tokens are monotonic and durable: they stand in the row of the lock, which outlives every lease, and are as durable
/// as the database's commits (on PostgreSQL `synchronous_commit` must not be `off`; on MariaDB
/// `innodb_flush_log_at_trx_commit` must be 1; on SQLite `synchronous` should be `FULL` if tokens must outlive a power failure).
/// Where another server may take over, that means the commits that the *next* one has: an asynchronous replica that is promoted has lost the
/// last of them, and issues their tokens once more, just as a copy that was restored. Then have it wait for a replica (PostgreSQL
/// `synchronous_standby_names`; MariaDB semi-synchronous replication with `AFTER_SYNC`, without a time-out that gives it up), or pass the
/// generation that is sealed at the resource as the [floor](crate::Acquire::floor) of each acquisition, which on its part must not be older
/// than the lock store: the resource refuses a lower token in any case, and of two equal ones the second.
///
/// It has no queue over processes: whoever asks first gets a free lock.
///
/// Every request is one statement that is its own transaction (one more shows the holder to whom the lock is refused), so a
/// process that stops anywhere keeps no row locked.
///
/// On PostgreSQL a waiter is notified of a release, in the release's own transaction and only if somebody waits; the waiters
/// of a store share one connection for it, beside the pool's, while there are any. On SQLite and MariaDB they poll.
///
/// Each request takes a connection of the pool for a moment. If the work's transactions come from the same pool, it needs one connection more
/// than there are of them at a time: on a pool of one, no renewal gets through while a transaction is open, and the lease is lost. On SQLite
/// no renewal gets through while another transaction has the file's write lock, whatever the pool.
///
/// The waiters' one connects as the pool does. A certificate or a password that is refused is no time-out: it ends an acquisition at once.
#[derive(Debug)]
pub struct SqlLeaseStore<DB: Dialect> {
    pool: Pool<DB>,
    bells: Bells,
}

impl<DB: LeaseSql> SqlLeaseStore<DB> {
    /// A store in the database of `pool`, which must have this crate's [`MIGRATIONS`](crate::MIGRATIONS).
    #[must_use]
    pub fn new(pool: &Pool<DB>) -> Self {
        Self { pool: pool.clone(), bells: Bells::default() }
    }

    pub(crate) const fn pool(&self) -> &Pool<DB> {
        &self.pool
    }

    async fn connection(&self) -> Result<PoolConnection<DB>, StoreError> {
        self.pool.acquire().await.map_err(no_connection::<DB>)
    }

    async fn try_acquire(
        connection: &mut DB::Connection,
        claim: Claim<'_>,
    ) -> Result<Grant<FencingToken>, sqlx::Error> {
        if let Some(value) = DB::acquire(connection, claim).await? {
            return Ok(Grant::Granted { token: token(value)?, ttl: claim.ttl });
        }
        let row = Statement::new(DB::HOLDER).bind(claim.name.as_str()).fetch_one::<DB>(connection).await?;
        Ok(Grant::Held(Holder {
            owner: OwnerHash::of(&row.bytes(0)?),
            token: Some(token(row.int(1)?)?),
            age: duration(row.int(2)?),
            remaining: duration(row.int(3)?),
            job: row.optional_text(4)?.map(String::into_boxed_str),
        }))
    }

    async fn change(&self, statement: Statement<'_>) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        let changed = statement.execute::<DB>(&mut connection).await.map_err(store_error::<DB>)?;
        Ok(changed > 0)
    }
}

impl<DB: Dialect> Clone for SqlLeaseStore<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), bells: self.bells.clone() }
    }
}

impl<DB: LeaseSql> LeaseStore for SqlLeaseStore<DB> {
    type Token = FencingToken;
    type Waiter = DB::Waiter;

    const CAPABILITIES: Capabilities = Capabilities::PLAIN.wake_up(DB::WAKE_UP).takes_over();

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        let mut connection = self.connection().await?;
        Self::try_acquire(&mut connection, claim).await.map_err(store_error::<DB>)
    }

    fn waiter(&self, claim: Claim<'_>) -> DB::Waiter {
        DB::waiter(&self.pool, &self.bells, claim.name)
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        let statement = Statement::new(DB::RENEW)
            .bind(milliseconds(claim.ttl))
            .bind(claim.name.as_str())
            .bind(&claim.nonce.as_bytes()[..])
            .bind(token.value());
        let renewed = self.change(statement).await?;
        Ok(if renewed { Renewal::Renewed { ttl: claim.ttl } } else { Renewal::NotOwner })
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        let statement = Statement::new(DB::RELEASE).bind(claim.name.as_str()).bind(&claim.nonce.as_bytes()[..]);
        let released = self.change(statement).await?;
        Ok(if released { Release::Released } else { Release::NotOwner })
    }

    /// Its time in the row ends it.
    fn let_expire(&self, _claim: Claim<'_>, _remaining: Duration) {}
}

impl<DB: LeaseSql> FencedStore for SqlLeaseStore<DB> {}

/// Why there is no connection. Nothing was sent: a server that has no TLS, or a certificate that was refused (rustls says that what it was
/// sent is no valid data), would be met again.
fn no_connection<DB: LeaseSql>(error: sqlx::Error) -> StoreError {
    let is_of_tls = match &error {
        sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(io) => io.kind() == std::io::ErrorKind::InvalidData,
        _ => false,
    };
    if is_of_tls { StoreError::permanent(error) } else { store_error::<DB>(error) }
}

pub(crate) fn store_error<DB: LeaseSql>(error: sqlx::Error) -> StoreError {
    if classify::<DB>(&error).is_retryable() { StoreError::retryable(error) } else { StoreError::permanent(error) }
}

pub(crate) fn token(value: i64) -> Result<FencingToken, sqlx::Error> {
    FencingToken::new(value).ok_or_else(|| sqlx::Error::Decode("a fencing token below 1".into()))
}

fn duration(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

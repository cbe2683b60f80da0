//! Lock stores that make the classic mistakes.

use leastlock_core::Statement;
use leastlock_lease::{
    Capabilities, Claim, FencedStore, FencingToken, Grant, LeaseSql, LeaseStore, OwnerNonce, Polling, Release, Renewal,
    SqlLeaseStore, StoreError,
};
use sqlx::Pool;

/// The statement of the mistake, per engine.
pub(crate) trait MistakenSql: LeaseSql {
    /// Takes the row for this owner whatever stands there: name, nonce.
    const RENEW_BY_FORCE: &'static str;
}

#[cfg(feature = "postgres")]
impl MistakenSql for sqlx::Postgres {
    const RENEW_BY_FORCE: &'static str = "UPDATE leastlock_lease SET owner_token = $2, \
        lease_until = clock_timestamp() + interval '1 minute' WHERE lock_name = $1";
}

#[cfg(feature = "sqlite")]
impl MistakenSql for sqlx::Sqlite {
    const RENEW_BY_FORCE: &'static str =
        "UPDATE leastlock_lease SET owner_token = ?2, lease_until = acquired_at + 60000 WHERE lock_name = ?1";
}

/// Which mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Deletes the lock by its name.
    ReleasesAnyone,
    /// Renews without asking whose the lease is, and whether it stands.
    RenewsByForce,
    /// Takes a new nonce for each attempt.
    ForgetsItsNonce,
}

#[derive(Debug)]
pub(crate) struct MistakenStore<DB: LeaseSql> {
    pub(crate) pool: Pool<DB>,
    pub(crate) mistake: Mistake,
}

impl<DB: LeaseSql> MistakenStore<DB> {
    fn right(&self) -> SqlLeaseStore<DB> {
        SqlLeaseStore::new(&self.pool)
    }
}

impl<DB: MistakenSql> LeaseStore for MistakenStore<DB> {
    type Token = FencingToken;
    type Waiter = Polling;

    const CAPABILITIES: Capabilities = Capabilities::PLAIN;

    async fn acquire(&self, mut claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        if self.mistake == Mistake::ForgetsItsNonce {
            claim.nonce = OwnerNonce::random().unwrap();
        }
        self.right().acquire(claim).await
    }

    fn waiter(&self, _claim: Claim<'_>) -> Polling {
        Polling
    }

    fn let_expire(&self, _claim: Claim<'_>, _remaining: std::time::Duration) {}

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        if self.mistake != Mistake::RenewsByForce {
            return self.right().renew(claim, token).await;
        }
        let mut connection = self.pool.acquire().await.map_err(StoreError::retryable)?;
        Statement::new(DB::RENEW_BY_FORCE)
            .bind(claim.name.as_str())
            .bind(&claim.nonce.as_bytes()[..])
            .execute::<DB>(&mut connection)
            .await
            .map_err(StoreError::retryable)?;
        Ok(Renewal::Renewed { ttl: claim.ttl })
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        if self.mistake != Mistake::ReleasesAnyone {
            return self.right().release(claim).await;
        }
        let mut connection = self.pool.acquire().await.map_err(StoreError::retryable)?;
        Statement::new("UPDATE leastlock_lease SET lease_until = NULL")
            .execute::<DB>(&mut connection)
            .await
            .map_err(StoreError::retryable)?;
        Ok(Release::Released)
    }
}

impl<DB: MistakenSql> FencedStore for MistakenStore<DB> {}

//! Guards and a lock store with the classic mistakes, written by hand: the crate does not let one make them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leastlock_core::{Statement, begin, to_its_end};
use leastlock_lease::{
    Capabilities, Claim, Error, Fence, FencedStore, FencingToken, Grant, LeaseStore, Permit, Polling, Protected,
    Release, Renewal, SqlLeaseStore, StoreError,
};
use sqlx::{Pool, Postgres, Transaction};

use super::shelf::Shelves;
use crate::part::Part;

/// The mutants, as they are called.
pub(super) const NO_FENCE: &str = "no fence check";
pub(super) const NO_SHARE_LOCK: &str = "fence check without the share lock";
pub(super) const ONE_STEP_SEAL: &str = "one-step seal";
pub(super) const CLIENT_CLOCK: &str = "client clock";
pub(super) const UPSERT: &str = "renewal by upsert";

/// What stands between a late writer and the shelf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    Right,
    /// None.
    Absent,
    /// Reads the guard row without locking it.
    WithoutLock,
    /// Seals by the guard row alone.
    OneStep,
}

/// A transaction that was let through.
pub(super) enum Passed<DB: Shelves> {
    Protected(Protected<DB>),
    Bare(Transaction<'static, DB>),
}

impl Guard {
    pub(super) async fn seal<DB: Shelves>(self, fence: &Fence, pool: &Pool<DB>, permit: &Permit) -> Result<(), Error> {
        if self != Self::OneStep {
            return fence.seal(pool, permit).await.map(drop);
        }
        let seal = Statement::new(include_str!("../../sql/writer/mutant_seal.sql")).bind(fence.resource());
        let seal = seal.bind(permit.token().value()).bind(&permit.owner().as_bytes()[..]);
        let mut connection = pool.acquire().await.map_err(failed)?;
        seal.execute::<DB>(&mut connection).await.map(drop).map_err(failed)
    }

    /// Begins a transaction that may write.
    pub(super) async fn begin<DB: Shelves>(
        self,
        fence: &Fence,
        pool: &Pool<DB>,
        permit: &Permit,
    ) -> Result<Passed<DB>, Error> {
        let check = match self {
            Self::Right => return fence.begin(pool, permit).await.map(Passed::Protected),
            Self::Absent => return begin::<DB>(pool).await.map(Passed::Bare).map_err(failed),
            Self::WithoutLock => include_str!("../../sql/writer/mutant_check.sql"),
            Self::OneStep => include_str!("../../sql/writer/mutant_check_guard.sql"),
        };
        let mut tx = begin::<DB>(pool).await.map_err(failed)?;
        let check = Statement::new(check).bind(fence.resource()).bind(permit.token().value());
        let check = check.bind(&permit.owner().as_bytes()[..]);
        match check.fetch_optional::<DB>(&mut tx).await.map_err(failed)? {
            Some(_) => Ok(Passed::Bare(tx)),
            None => Err(failed(sqlx::Error::RowNotFound)),
        }
    }
}

impl<DB: Shelves> Passed<DB> {
    pub(super) fn connection(&mut self) -> &mut DB::Connection {
        match self {
            Self::Protected(tx) => tx,
            Self::Bare(tx) => tx,
        }
    }

    pub(super) async fn commit(self) -> Result<(), Error> {
        match self {
            Self::Protected(tx) => tx.commit().await,
            Self::Bare(tx) => tx.commit().await.map_err(failed),
        }
    }
}

/// Nobody knows what became of it.
pub(super) fn failed(source: sqlx::Error) -> Error {
    Error::Commit { source }
}

/// A lock store in PostgreSQL with a mistake.
#[derive(Debug)]
pub(super) struct Mistaken {
    store: SqlLeaseStore<Postgres>,
    pool: Pool<Postgres>,
    part: Part,
}

impl Mistaken {
    pub(super) fn new(pool: &Pool<Postgres>, part: &Part) -> Self {
        Self { store: SqlLeaseStore::new(pool), pool: pool.clone(), part: part.clone() }
    }

    /// What its own clock shows, in milliseconds since 1970.
    fn clock_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX).saturating_add(self.part.clock_offset_ms())
    }
}

impl LeaseStore for Mistaken {
    type Token = FencingToken;
    type Waiter = Polling;

    const CAPABILITIES: Capabilities = Capabilities::PLAIN;

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        if !self.part.is_mutant(CLIENT_CLOCK) {
            return self.store.acquire(claim).await;
        }
        let acquire = Statement::new(include_str!("../../sql/writer/mutant_acquire.sql")).bind(claim.name.as_str());
        let acquire = acquire.bind(&claim.nonce.as_bytes()[..]).bind(ttl_ms(&claim));
        let acquire = acquire.bind(claim.floor.map_or(0, FencingToken::value)).bind(self.clock_ms());
        let mut connection = self.pool.acquire().await.map_err(StoreError::retryable)?;
        let row = acquire.fetch_optional::<Postgres>(&mut connection).await.map_err(StoreError::retryable)?;
        let token = row.map(|row| row.int(0)).transpose().map_err(StoreError::permanent)?;
        match token.and_then(FencingToken::new) {
            Some(token) => Ok(Grant::Granted { token, ttl: claim.ttl }),
            // Whoever holds it is shown by the right one.
            None => self.store.acquire(claim).await,
        }
    }

    fn waiter(&self, _claim: Claim<'_>) -> Polling {
        Polling
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        if !self.part.is_mutant(UPSERT) {
            return self.store.renew(claim, token).await;
        }
        let (pool, ttl_ms) = (self.pool.clone(), ttl_ms(&claim));
        let (name, nonce) = (claim.name.as_str().to_owned(), claim.nonce.as_bytes().to_vec());
        // It is on its way, whether anybody waits for it or not.
        let renewed = to_its_end(async move {
            let renew = Statement::new(include_str!("../../sql/writer/mutant_renew.sql")).bind(&*name).bind(&*nonce);
            let renew = renew.bind(ttl_ms).bind(token.value());
            renew.execute::<Postgres>(&mut *pool.acquire().await?).await
        });
        renewed.await.map_err(StoreError::retryable)?;
        Ok(Renewal::Renewed { ttl: claim.ttl })
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        self.store.release(claim).await
    }

    fn let_expire(&self, _claim: Claim<'_>, _remaining: Duration) {}
}

impl FencedStore for Mistaken {}

fn ttl_ms(claim: &Claim<'_>) -> i64 {
    i64::try_from(claim.ttl.as_millis()).unwrap_or(i64::MAX)
}

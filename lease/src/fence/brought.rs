//! Sealing and checking by a token that came from elsewhere, as with a request: there is no lease here to follow.

use std::time::Duration;

use leastlock_core::classify;
use sqlx::{Pool, Transaction};
use tokio::time::{Instant, sleep, timeout};

use super::{Fence, Newest, Protected, Refusal, database};
use crate::error::Error;
use crate::owner_mark::OwnerMark;
use crate::sql::{LeaseSql, Limits, Mark, Step};
use crate::token::{FencingToken, OwnerHash};

/// What stands for a lease's TTL where it is not known.
const TTL: Duration = Duration::from_secs(10);
const LONGEST_ATTEMPT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// A token that came from elsewhere, and what stands for its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Brought {
    pub(crate) token: FencingToken,
    pub(crate) owner: OwnerMark,
}

impl Brought {
    /// The owner as it is stored, if this is the sealed one. A holder that sealed in the database itself has left its nonce
    /// there, one that sealed by a request what stands for it.
    fn sealed_as(&self, newest: Option<&Newest>) -> Result<Vec<u8>, Refusal> {
        let newest = newest.ok_or(Refusal::NotSealed)?;
        let by = newest.guard.map_or(newest.generation, |guard| guard.max(newest.generation));
        if by > self.token {
            return Err(Refusal::Superseded { by });
        }
        if newest.generation < self.token {
            return Err(Refusal::NotSealed);
        }
        let is_owner = OwnerMark::of(&newest.owner) == self.owner || newest.owner == self.owner.as_bytes();
        if is_owner {
            Ok(newest.owner.clone())
        } else {
            Err(Refusal::OtherOwner { owner: OwnerHash::of(&newest.owner) })
        }
    }
}

impl Fence {
    /// Why a token would be refused now, if it would. A look before anything is done: only [`check_brought`](Self::check_brought)
    /// protects.
    pub(crate) async fn look<DB: LeaseSql>(&self, pool: &Pool<DB>, brought: Brought) -> Result<Option<Refusal>, Error> {
        const LOOK: &str = "look at the sealed generation";
        let mut connection = pool.acquire().await.map_err(database::<DB>(LOOK))?;
        let newest = self.newest::<DB>(&mut connection).await.map_err(database::<DB>(LOOK))?;
        Ok(brought.sealed_as(newest.as_ref()).err())
    }

    /// Protects a transaction, as [`check`](Self::check) does; after a refusal or an error it cannot commit.
    pub(crate) async fn check_brought<DB: LeaseSql>(
        &self,
        tx: &mut Transaction<'_, DB>,
        brought: Brought,
    ) -> Result<Option<Refusal>, Error> {
        let checked = match self.outside_of_savepoints(tx) {
            Ok(()) => self.judge(tx, brought).await.map_err(database::<DB>("check the token")),
            Err(savepoint) => Err(savepoint),
        };
        if !matches!(checked, Ok(None)) {
            // A connection that cannot even be poisoned cannot commit either.
            let _poisoned = DB::poison(tx).await;
        }
        checked
    }

    /// The owner that was read is compared once more by the statement that locks, so nothing can come between the two.
    async fn judge<DB: LeaseSql>(
        &self,
        tx: &mut Transaction<'_, DB>,
        brought: Brought,
    ) -> Result<Option<Refusal>, sqlx::Error> {
        let owner = match brought.sealed_as(self.newest::<DB>(tx).await?.as_ref()) {
            Ok(owner) => owner,
            Err(refusal) => return Ok(Some(refusal)),
        };
        let mark = Mark { resource: &self.resource, generation: brought.token.value(), owner: &owner };
        if DB::check(tx, mark, self.idle_limit(TTL)).await? {
            return Ok(None);
        }
        let refusal = brought.sealed_as(self.newest::<DB>(tx).await?.as_ref()).err();
        Ok(Some(refusal.unwrap_or(Refusal::NotSealed)))
    }

    /// Begins a transaction and protects it, as [`begin`](Self::begin) does.
    pub(crate) async fn begin_brought<DB: LeaseSql>(
        &self,
        pool: &Pool<DB>,
        brought: Brought,
    ) -> Result<Result<Protected<DB>, Refusal>, Error> {
        let begun = Protected::begin(pool, self.idle_limit(TTL));
        let mut protected = begun.await.map_err(database::<DB>("begin a protected transaction"))?;
        Ok(match self.check_brought(&mut protected, brought).await? {
            None => Ok(protected),
            Some(refusal) => Err(refusal),
        })
    }

    /// Registers a generation, as [`seal`](Self::seal) does, unless it is registered already.
    pub(crate) async fn seal_brought<DB: LeaseSql>(
        &self,
        pool: &Pool<DB>,
        brought: Brought,
    ) -> Result<Option<Refusal>, Error> {
        const SEAL: &str = "seal the resource";
        let begun = Instant::now();
        let limit = self.seal_limit.unwrap_or(TTL * 2);
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                let (resource, waited) = (self.resource.clone(), begun.elapsed());
                return Err(Error::SealTimeout { resource, waited, blockers: Vec::new() });
            }
            let attempt = self.raise_brought(pool, brought, left.min(LONGEST_ATTEMPT));
            match timeout(left.min(LONGEST_ATTEMPT) + Duration::from_secs(1), attempt).await {
                Ok(Ok(sealed)) => return Ok(sealed),
                Ok(Err(error)) if !classify::<DB>(&error).is_retryable() => return Err(database::<DB>(SEAL)(error)),
                // Not an answer, or one that another attempt may better.
                Ok(Err(_)) | Err(_) => sleep(PAUSE).await,
            }
        }
    }

    async fn raise_brought<DB: LeaseSql>(
        &self,
        pool: &Pool<DB>,
        brought: Brought,
        wait: Duration,
    ) -> Result<Option<Refusal>, sqlx::Error> {
        let newest = self.newest::<DB>(&mut *pool.acquire().await?).await?;
        let is_sealed = newest.as_ref().and_then(|newest| newest.guard) == Some(brought.token);
        let owner = match brought.sealed_as(newest.as_ref()) {
            Ok(_) if is_sealed => return Ok(None),
            Ok(owner) => owner,
            Err(Refusal::NotSealed) => brought.owner.as_bytes().to_vec(),
            Err(refusal) => return Ok(Some(refusal)),
        };
        let mark = Mark { resource: &self.resource, generation: brought.token.value(), owner: &owner };
        let limits = Limits { wait, idle: self.idle_limit(TTL) };
        for step in [Step::Gate, Step::Guard] {
            if !DB::raise(pool, step, mark, limits, |_| {}).await? {
                let newest = self.newest::<DB>(&mut *pool.acquire().await?).await?;
                let refusal = brought.sealed_as(newest.as_ref()).err();
                return Ok(Some(refusal.unwrap_or(Refusal::NotSealed)));
            }
        }
        Ok(None)
    }
}

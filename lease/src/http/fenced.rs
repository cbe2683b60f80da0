//! What a handler gets of a request whose token was let through.

use std::fmt;

use sqlx::{Pool, Transaction};

use super::problem::Problem;
use crate::error::Error;
use crate::event;
use crate::fence::{Brought, Fence, Protected, Refusal};
use crate::sql::LeaseSql;
use crate::token::FencingToken;

/// A request's token and the fence that it has to pass, in the request's extensions. Cheap to clone.
///
/// That a handler has it says only that the token would have passed a moment ago. What protects is the transaction of
/// [`begin`](Self::begin).
pub struct Fenced<DB: LeaseSql> {
    pub(super) pool: Pool<DB>,
    pub(super) fence: Fence,
    pub(super) brought: Brought,
}

impl<DB: LeaseSql> Fenced<DB> {
    /// The generation of the request.
    #[must_use]
    pub const fn token(&self) -> FencingToken {
        self.brought.token
    }

    /// The resource.
    #[must_use]
    pub const fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Begins a transaction that commits only if the request's generation is the sealed one: the guard row is share-locked until
    /// it ends, so that a seal waits for it, and its idling is bounded (10 s, or the fence's
    /// [`idle_timeout`](Fence::idle_timeout)). Begin once the request's body is read, since a slow client would hold the row.
    ///
    /// # Errors
    /// [`Problem::Refused`], [`Problem::StoreFailed`]; nothing is left open.
    ///
    /// # Cancel safety
    /// Dropped, no transaction stays open.
    pub async fn begin(&self) -> Result<Protected<DB>, Problem> {
        match self.fence.begin_brought(&self.pool, self.brought).await? {
            Ok(protected) => Ok(protected),
            Err(refusal) => Err(self.refused(refusal)),
        }
    }

    /// Protects a transaction of the handler's own, which it has begun in the same database. As [`Fence::check`] it comes before
    /// anything is read, and on MariaDB it does not bound the transaction's idling.
    ///
    /// # Errors
    /// [`Problem::Refused`], [`Problem::StoreFailed`]; after either the transaction is made unable to commit: roll it back. Inside of a
    /// savepoint it is always `StoreFailed`, without `retry_after`, and the transaction around that can commit: check in the transaction
    /// itself.
    ///
    /// # Cancel safety
    /// Dropped half-way, the transaction may be unprotected: roll it back.
    pub async fn check(&self, tx: &mut Transaction<'_, DB>) -> Result<(), Problem> {
        match self.fence.check_brought(tx, self.brought).await? {
            None => Ok(()),
            Some(refusal) => Err(self.refused(refusal)),
        }
    }

    /// Looks whether it would pass, after it was sealed if `seals`.
    pub(super) async fn admit(&self, seals: bool) -> Result<(), Problem> {
        let refusal: Result<Option<Refusal>, Error> = if seals {
            self.fence.seal_brought(&self.pool, self.brought).await
        } else {
            self.fence.look(&self.pool, self.brought).await
        };
        refusal?.map_or(Ok(()), |refusal| Err(self.refused(refusal)))
    }

    fn refused(&self, refusal: Refusal) -> Problem {
        event::refused_request(self.brought.token, self.brought.owner.hash(), self.fence.resource(), refusal);
        Problem::Refused { refusal }
    }
}

impl<DB: LeaseSql> Clone for Fenced<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), fence: self.fence.clone(), brought: self.brought }
    }
}

impl<DB: LeaseSql> fmt::Debug for Fenced<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fenced").field("fence", &self.fence).field("brought", &self.brought).finish_non_exhaustive()
    }
}

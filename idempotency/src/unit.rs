//! The transaction of a first request, and its completion.

use std::fmt;
use std::marker::PhantomData;

use leastlock_core::Statement;
use sqlx::Transaction;

use crate::error::Error;
use crate::key::Key;
use crate::own_transaction::OwnTransaction;
use crate::response::Response;
use crate::sql::IdempotencySql;

/// A first request's unit of work: it owns the transaction that holds the claim.
///
/// Run the effects on [`tx`](Self::tx), then [`complete`](Self::complete). Dropping it rolls everything back, the claim
/// included, so the key is free again and a waiting duplicate runs as first.
#[must_use = "dropping a unit rolls its effects back and frees the key"]
pub struct Unit<DB: IdempotencySql, R> {
    tx: OwnTransaction<DB>,
    claim: Claim<R>,
}

impl<DB: IdempotencySql, R: Response> Unit<DB, R> {
    pub(crate) fn new(tx: OwnTransaction<DB>, claim: Claim<R>) -> Self {
        Self { tx, claim }
    }

    /// The transaction to run the effects in.
    pub fn tx(&mut self) -> &mut Transaction<'static, DB> {
        &mut self.tx
    }

    /// Stores the answer, commits, and gives the answer back. From then on every repeat is answered with it.
    ///
    /// # Errors
    /// [`Error::CommitUnknown`] when the reply of the commit was lost; after any other error nothing was kept.
    ///
    /// # Cancel safety
    /// Dropped before the commit was sent, nothing is kept; dropped while it is under way, the outcome is unknown to the
    /// caller but never half: begin again with the same key to learn it.
    pub async fn complete(mut self, response: R) -> Result<R, Error> {
        let response = self.claim.complete(&mut self.tx, response).await?;
        self.tx.commit().await.map_err(Error::commit::<DB>)?;
        Ok(response)
    }

    /// Rolls back: nothing happened, and the key is free. Like dropping the unit, but done when it returns.
    ///
    /// # Cancel safety
    /// The transaction is rolled back all the same.
    pub async fn release(self) -> Result<(), Error> {
        self.tx.roll_back().await.map_err(Error::database::<DB>)
    }
}

impl<DB: IdempotencySql, R> fmt::Debug for Unit<DB, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Unit").field("claim", &self.claim).finish_non_exhaustive()
    }
}

/// A key claimed in the caller's own transaction by [`Keys::begin_in`](crate::Keys::begin_in).
///
/// Complete it before committing. A claim committed without an answer is never run again and never answered:
/// [`Error::CommittedWithoutAnswer`].
#[must_use = "a claim must be completed before its transaction commits"]
pub struct Claim<R> {
    key: Key,
    generation: i64,
    max_response_bytes: usize,
    response: PhantomData<fn(R)>,
}

impl<R> Claim<R> {
    pub(crate) fn new(key: Key, generation: i64, max_response_bytes: usize) -> Self {
        Self { key, generation, max_response_bytes, response: PhantomData }
    }
}

impl<R: Response> Claim<R> {
    /// Stores the answer in the transaction that made the claim, and gives it back. It counts once the caller commits.
    ///
    /// # Errors
    /// After any error the transaction is to be rolled back.
    ///
    /// # Cancel safety
    /// Dropped half-way, the transaction must be rolled back.
    pub async fn complete<DB: IdempotencySql>(self, tx: &mut Transaction<'_, DB>, response: R) -> Result<R, Error> {
        let parts = response.to_parts().map_err(|source| Error::Serialize { source })?;
        if parts.bytes() > self.max_response_bytes {
            return Err(Error::ResponseTooLarge { bytes: parts.bytes(), limit: self.max_response_bytes });
        }
        let completed = Statement::new(DB::COMPLETE)
            .bind(parts.status.map(i64::from))
            .bind(parts.headers.as_deref())
            .bind(parts.body.as_slice())
            .bind(self.key.scope().as_str())
            .bind(self.key.as_str())
            .bind(self.generation)
            .execute::<DB>(&mut *tx)
            .await
            .map_err(Error::database::<DB>)?;
        if completed == 1 { Ok(response) } else { Err(Error::ClaimGone) }
    }
}

impl<R> fmt::Debug for Claim<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Claim").field("generation", &self.generation).finish_non_exhaustive()
    }
}

//! The statements of this crate, per engine.

use std::future::Future;

use leastlock_core::Dialect;

use crate::claim::{Answer, Request};

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

/// An engine that keeps idempotency records. Implemented wherever [`Dialect`] is.
///
/// # Contract
/// [`claim`](Self::claim) and [`claim_expired`](Self::claim_expired) run in an open transaction, wait for another
/// transaction on the same key for at most `request.wait_ms`, and leave the caller's lock time-out as it was.
pub trait IdempotencySql: Dialect {
    /// Stores the answer of a claimed record: scope, key, generation, body.
    const COMPLETE: &'static str;
    /// Deletes expired records: how many at most.
    const SWEEP: &'static str;

    /// Claims the key, or answers what holds it.
    fn claim(
        connection: &mut Self::Connection,
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Answer, sqlx::Error>> + Send;

    /// Claims a key whose record has expired; `None` if another claimant was quicker.
    fn claim_expired(
        connection: &mut Self::Connection,
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Option<i64>, sqlx::Error>> + Send;
}

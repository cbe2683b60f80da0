//! The statements of this crate, per engine.

use std::future::Future;

use leastlock_core::Dialect;
use sqlx::{Pool, Transaction};

use crate::claim::{Answer, Limits, Request};
use crate::own_transaction::OwnTransaction;

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

/// An engine that keeps idempotency records. Implemented wherever [`Dialect`] is.
///
/// # Contract
/// - [`begin`](Self::begin) opens a transaction in which the server bounds idling, where it can; [`commit`](Self::commit),
///   [`roll_back`](Self::roll_back) and [`abandon`](Self::abandon) end it and leave the connection as it was before.
/// - [`claim`](Self::claim) and [`claim_expired`](Self::claim_expired) run in an open transaction, wait for another
///   transaction on the same key for at most `request.wait_ms` (MySQL: in whole seconds, rounded down), and leave the caller's
///   lock time-out as it was.
pub trait IdempotencySql: Dialect {
    /// Stores the answer of a claimed record: status, headers, body, scope, key, generation.
    const COMPLETE: &'static str;

    /// Whether a claim in a caller's transaction needs a savepoint, so that a lock's time-out does not cost the whole of it.
    const NEEDS_SAVEPOINT: bool;

    /// Begins a unit. Dropped at any time, no transaction stays open.
    fn begin(
        pool: &Pool<Self>,
        limits: &Limits,
    ) -> impl Future<Output = Result<OwnTransaction<Self>, sqlx::Error>> + Send;

    /// Fails, as a statement of class [`Other`](leastlock_core::ErrorClass::Other), unless the open transaction is the one that
    /// [`begin`](Self::begin) began: an error whose answer was overlooked may have ended it, and the next statement would commit
    /// by itself. Right before a record is written.
    fn prove(connection: &mut Self::Connection) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Commits a unit, and takes it out once it has: what is left in there when this fails, or is dropped, is abandoned.
    fn commit(tx: &mut Option<Transaction<'static, Self>>) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Rolls a unit back, as [`commit`](Self::commit).
    fn roll_back(tx: &mut Option<Transaction<'static, Self>>) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Rolls back a unit that was dropped, when there is nobody to wait for it.
    fn abandon(tx: Transaction<'static, Self>);

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

    /// Whether a transaction whose claim met a lock's time-out is otherwise as it was (after rolling the savepoint back, if
    /// there was one).
    fn outlives_lock_timeout(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Deletes at most `batch` expired records, in an open transaction; answers how many.
    fn sweep(connection: &mut Self::Connection, batch: i64) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
}

/// What is the same for the engines that set nothing on a connection beyond the transaction's end.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
macro_rules! transaction_methods {
    () => {
        const NEEDS_SAVEPOINT: bool = true;

        async fn commit(tx: &mut Option<sqlx::Transaction<'static, Self>>) -> Result<(), sqlx::Error> {
            match tx.take() {
                Some(tx) => tx.commit().await,
                None => Ok(()),
            }
        }

        async fn roll_back(tx: &mut Option<sqlx::Transaction<'static, Self>>) -> Result<(), sqlx::Error> {
            match tx.take() {
                Some(tx) => tx.rollback().await,
                None => Ok(()),
            }
        }

        async fn outlives_lock_timeout(_: &mut Self::Connection) -> Result<bool, sqlx::Error> {
            Ok(true)
        }

        async fn sweep(connection: &mut Self::Connection, batch: i64) -> Result<u64, sqlx::Error> {
            Statement::new(SWEEP).bind(batch).execute::<Self>(connection).await
        }
    };
}
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use transaction_methods;

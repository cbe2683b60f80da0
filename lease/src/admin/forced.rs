//! Taking a lock away from its holder, and what became of it.

#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
use std::time::Duration;

#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
use sqlx::Pool;

use super::LockRecord;
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
use super::approval::Approval;
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
use super::audit::{AuditOutcome, Operation};
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
use crate::error::Error;
use crate::lock_name::LockName;
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
use crate::sql::LeaseSql;
use crate::store::StoreError;
use crate::token::{FencingToken, OwnerHash, OwnerNonce};

/// How long a store's answer is waited for.
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
const ANSWER: Duration = Duration::from_secs(10);

/// What became of an operator's release.
#[derive(Debug)]
#[must_use]
pub enum Forced {
    /// The lock is free, and its token raised.
    Released(Seizure),
    /// The lock was not held under the expected token any more. Nothing was changed.
    Changed(Option<LockRecord>),
    /// The approval was over, by the store's clock. Nothing was changed.
    ApprovalExpired,
    /// The store did not answer: it may have happened. [`Inspect`](super::Inspect) tells: if the lock's owner is this one, it has.
    Unknown {
        /// The short hash of the operation, which is the lock's owner if it took effect.
        operation: OwnerHash,
        /// What was met; `None` for a time-out.
        source: Option<StoreError>,
    },
}

/// A lock that was taken away: the operation as the lock's owner for a moment, with a token of its own.
///
/// [`Fence::seal_forced`](crate::Fence::seal_forced) has a resource refuse the holder before it at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seizure {
    pub(crate) name: LockName,
    pub(crate) token: FencingToken,
    pub(crate) nonce: OwnerNonce,
}

impl Seizure {
    /// The lock.
    #[must_use]
    pub const fn name(&self) -> &LockName {
        &self.name
    }

    /// The raised token: above the holder's, and below that of whoever comes next.
    #[must_use]
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// The short hash of the operation, as the store and the audit show it.
    #[must_use]
    pub fn operation(&self) -> OwnerHash {
        self.nonce.hash()
    }
}

/// What a store other than SQL answers.
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Released { token: FencingToken },
    Changed,
    ApprovalExpired,
}

/// Writes the intent, has the store release, and writes the outcome. `release` is sent once.
///
/// # Cancel safety
/// Dropped after the intent is written, it has no outcome, and is unknown.
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
pub(crate) async fn audited<DB: LeaseSql>(
    audit: &Pool<DB>,
    (name, token, approval): (&LockName, FencingToken, &Approval),
    release: impl AsyncFnOnce(OwnerNonce) -> Result<Answer, StoreError>,
    look: impl AsyncFnOnce() -> Result<Option<LockRecord>, StoreError>,
) -> Result<Forced, Error> {
    let operation = Operation { nonce: OwnerNonce::random()?, name, token, approval };
    operation.intend(audit).await?;
    let answer = match tokio::time::timeout(ANSWER, release(operation.nonce)).await {
        Ok(Ok(answer)) => answer,
        // It was refused, so it did not happen, and the intent says that it is unknown: to be on the safe side, it stays so.
        Ok(Err(source)) if !source.is_retryable() => return Err(Error::Store { name: name.clone(), source }),
        Ok(Err(source)) => return Ok(Forced::Unknown { operation: operation.nonce.hash(), source: Some(source) }),
        Err(_elapsed) => return Ok(Forced::Unknown { operation: operation.nonce.hash(), source: None }),
    };
    match answer {
        Answer::Released { token } => {
            operation.settle(audit, AuditOutcome::Released, Some(token)).await?;
            let seizure = Seizure { name: name.clone(), token, nonce: operation.nonce };
            crate::event::force_released(&seizure);
            Ok(Forced::Released(seizure))
        }
        Answer::Changed => {
            operation.settle(audit, AuditOutcome::Changed, None).await?;
            let record = tokio::time::timeout(ANSWER, look()).await.unwrap_or(Ok(None));
            Ok(Forced::Changed(record.map_err(|source| Error::Store { name: name.clone(), source })?))
        }
        Answer::ApprovalExpired => {
            operation.settle(audit, AuditOutcome::ApprovalExpired, None).await?;
            Ok(Forced::ApprovalExpired)
        }
    }
}

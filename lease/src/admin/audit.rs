//! Who took which lock away, and what became of it: the table `leastlock_audit`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leastlock_core::{Row, Statement, classify};
use sqlx::Pool;

use super::approval::Approval;
use crate::error::Error;
use crate::lock_name::LockName;
use crate::sql::LeaseSql;
use crate::token::{FencingToken, OwnerHash, OwnerNonce};

const READ: &str = "read the audit";
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
const WRITE: &str = "write the audit";
/// How often an outcome is written, at most.
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
const ATTEMPTS: u32 = 3;

/// A row of the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEntry {
    /// Its number: the newest has the highest.
    pub id: i64,
    /// The short hash of the operation. After one that took effect it is the lock's owner, until somebody else acquires it.
    pub operation: OwnerHash,
    /// The lock.
    pub name: LockName,
    /// The token that the holder had to have.
    pub expected: FencingToken,
    /// Who has allowed it.
    pub approver: Box<str>,
    /// Why.
    pub reason: Box<str>,
    /// Until when it was allowed.
    pub approved_until: SystemTime,
    /// When it was written, by the clock of the audit's database.
    pub written_at: SystemTime,
    /// What became of it; `None` is unknown.
    pub outcome: Option<AuditOutcome>,
    /// The token to which the lock was raised.
    pub raised_to: Option<FencingToken>,
}

/// What became of an operation, as the audit has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuditOutcome {
    /// The lock was taken away.
    Released,
    /// The lock was not held under the expected token any more.
    Changed,
    /// The approval was over.
    ApprovalExpired,
}

impl AuditOutcome {
    const ALL: [Self; 3] = [Self::Released, Self::Changed, Self::ApprovalExpired];

    /// As it is stored.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Changed => "changed",
            Self::ApprovalExpired => "approval-expired",
        }
    }
}

/// Reads the audit, the newest first, from before the entry `before`; `limit` entries at most.
///
/// What is [unknown](AuditEntry::outcome) is for somebody to look at: [`Inspect`](super::Inspect) shows whether it took effect.
///
/// # Errors
/// [`Error::Database`].
///
/// # Cancel safety
/// Safe: it changes nothing.
pub async fn audit<DB: LeaseSql>(pool: &Pool<DB>, before: Option<i64>, limit: u32) -> Result<Vec<AuditEntry>, Error> {
    let read = async {
        let mut connection = pool.acquire().await?;
        let read = Statement::new(DB::AUDIT_READ).bind(before.unwrap_or(i64::MAX)).bind(i64::from(limit));
        read.fetch_all::<DB>(&mut connection).await?.iter().map(entry).collect::<Result<Vec<_>, _>>()
    };
    read.await.map_err(database::<DB>(READ))
}

fn entry<DB: LeaseSql>(row: &Row<DB>) -> Result<AuditEntry, sqlx::Error> {
    let token = |value| FencingToken::new(value).ok_or_else(|| sqlx::Error::Decode("a fencing token below 1".into()));
    let name = LockName::new(row.text(2)?).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let outcome = row.optional_text(8)?;
    Ok(AuditEntry {
        id: row.int(0)?,
        operation: OwnerHash::of(&row.bytes(1)?),
        name,
        expected: token(row.int(3)?)?,
        approver: row.text(4)?.into(),
        reason: row.text(5)?.into(),
        approved_until: time(row.int(6)?),
        written_at: time(row.int(7)?),
        outcome: AuditOutcome::ALL.into_iter().find(|known| outcome.as_deref() == Some(known.as_str())),
        raised_to: row.optional_int(9)?.map(token).transpose()?,
    })
}

fn time(since_1970_ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(since_1970_ms).unwrap_or(0))
}

/// An operation, as it is written into the audit.
#[derive(Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) nonce: OwnerNonce,
    pub(super) name: &'a LockName,
    pub(super) token: FencingToken,
    pub(super) approval: &'a Approval,
}

impl Operation<'_> {
    /// Writes it, in the caller's transaction, with its outcome, or as an intent.
    pub(super) async fn write<DB: LeaseSql>(
        &self,
        connection: &mut DB::Connection,
        outcome: Option<AuditOutcome>,
        raised_to: Option<FencingToken>,
    ) -> Result<(), sqlx::Error> {
        let write = Statement::new(DB::AUDIT)
            .bind(&self.nonce.as_bytes()[..])
            .bind(self.name.as_str())
            .bind(self.token.value())
            .bind(self.approval.approver())
            .bind(self.approval.reason())
            .bind(self.approval.until_ms())
            .bind(outcome.map(AuditOutcome::as_str))
            .bind(raised_to.map(FencingToken::value));
        write.execute::<DB>(connection).await.map(drop)
    }

    /// Writes it as an intent, in a transaction of its own.
    #[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
    pub(super) async fn intend<DB: LeaseSql>(&self, audit: &Pool<DB>) -> Result<(), Error> {
        let intend = async {
            let mut connection = audit.acquire().await?;
            self.write::<DB>(&mut connection, None, None).await
        };
        intend.await.map_err(database::<DB>(WRITE))
    }

    /// Writes what became of an intent.
    #[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
    pub(super) async fn settle<DB: LeaseSql>(
        &self,
        audit: &Pool<DB>,
        outcome: AuditOutcome,
        raised_to: Option<FencingToken>,
    ) -> Result<(), Error> {
        let mut attempt = 1;
        loop {
            let settle = async {
                let mut connection = audit.acquire().await?;
                let settle = Statement::new(DB::AUDIT_SETTLE)
                    .bind(outcome.as_str())
                    .bind(raised_to.map(FencingToken::value))
                    .bind(&self.nonce.as_bytes()[..]);
                settle.execute::<DB>(&mut connection).await
            };
            match settle.await {
                Ok(_) => return Ok(()),
                Err(error) if attempt < ATTEMPTS && classify::<DB>(&error).is_retryable() => attempt += 1,
                Err(error) => return Err(database::<DB>(WRITE)(error)),
            }
        }
    }
}

/// Makes an [`Error::Database`] of what the driver said.
pub(super) fn database<DB: LeaseSql>(operation: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |source| Error::Database { operation, retryable: classify::<DB>(&source).is_retryable(), source }
}

//! The statements of the lease and of the fence, per engine.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod returning;
mod row;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::time::Duration;

use leastlock_core::Dialect;
use sqlx::{Pool, Transaction};

use crate::capabilities::WakeUp;
use crate::fence::Blocker;
use crate::lock_name::LockName;
use crate::store::{Claim, Waiter};
use crate::wake::Bells;

pub(crate) use self::row::Part;
use self::row::RowSql;

/// The longest time that PostgreSQL takes for a setting, 24 days: 31 bits of milliseconds. A bound that is longer is as good as this.
pub(crate) const LONGEST_SETTING: Duration = Duration::from_millis(2_147_483_647);

/// An SQL engine that can keep leases and fences. Sealed: implemented for `sqlx::Postgres`, `sqlx::Sqlite` and
/// `sqlx::MySql`, each behind the feature of its name.
///
/// # Contract
/// The files in `sql/` say of each statement which lock it takes, at which isolation level it is right, and why.
pub trait LeaseSql: Engine + RowSql {}

/// What differs between the engines. Public for the bound above, and not to be named outside.
pub trait Engine: Dialect {
    /// How a waiter of another process learns of a release.
    const WAKE_UP: WakeUp;

    /// How one waiter does.
    type Waiter: Waiter;

    /// name → nonce, token, age in ms, remaining ms, job.
    const HOLDER: &'static str;
    /// TTL in ms, name, nonce, token → one row changed, or none.
    const RENEW: &'static str;
    /// name, nonce → one row changed, or none.
    const RELEASE: &'static str;
    /// resource → generation and nonce of the gate, generation of the guard or NULL.
    const SEALED: &'static str;
    /// job, period, nonce → one row changed, or none.
    const ONCE_COMPLETE: &'static str;
    /// job, period → nonce, how long it took in ms, how long ago in ms.
    const ONCE_DONE: &'static str;
    /// age in ms, limit → rows changed.
    const ONCE_FORGET: &'static str;
    /// name → name, nonce, token, age in ms, remaining ms, job, 0 held or 1 expired or 2 released.
    const INSPECT: &'static str;
    /// name, limit → the same of the locks that are held, from behind the name.
    const LIST: &'static str;
    /// name → the same, locked.
    const FORCE_LOCK: &'static str;
    /// nonce of the operation, name, end of the approval in ms → one row changed, or none.
    const FORCE_RELEASE: &'static str;
    /// nonce of the operation, name, token, approver, reason, end of the approval in ms, outcome or NULL, token or NULL.
    const AUDIT: &'static str;
    /// outcome, token or NULL, nonce of the operation.
    const AUDIT_SETTLE: &'static str;
    /// id, limit → the rows before it, as [`AuditEntry`](crate::AuditEntry) has them.
    const AUDIT_READ: &'static str;

    /// The token, if the lock is granted. One attempt, of which every statement is its own transaction: a process that stops
    /// between two of them keeps no row locked.
    fn acquire(
        connection: &mut Self::Connection,
        claim: Claim<'_>,
    ) -> impl Future<Output = Result<Option<i64>, sqlx::Error>> + Send;

    /// A waiter for a lock.
    fn waiter(pool: &Pool<Self>, bells: &Bells, name: &LockName) -> Self::Waiter;

    /// Carries out one step of a seal and commits it; `false` if it is refused. Tells whom it waits for, if it can.
    fn raise(
        pool: &Pool<Self>,
        step: Step,
        mark: Mark<'_>,
        limits: Limits,
        waits_for: impl FnMut(Blocker) + Send,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Begins a transaction at READ COMMITTED whose idling the server bounds, if it can and
    /// [`check`](Self::check) does not.
    fn begin(
        pool: &Pool<Self>,
        idle: Duration,
    ) -> impl Future<Output = Result<Transaction<'static, Self>, sqlx::Error>> + Send;

    /// Commits it, and takes it out of the slot unless that failed.
    fn commit(tx: &mut Option<Transaction<'static, Self>>) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Rolls it back, and puts back what was set on its connection.
    fn abandon(tx: Transaction<'static, Self>);

    /// Whether the caller's transaction may go on under this mark; share-locks the guard row if so.
    fn check(
        connection: &mut Self::Connection,
        mark: Mark<'_>,
        idle: Duration,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Marks a period as done in the caller's transaction; `false` if it is marked. Waits for whoever has marked it and not
    /// committed.
    fn once_mark(
        connection: &mut Self::Connection,
        once: OnceMark<'_>,
        idle: Duration,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;
}

/// The steps of a seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The row that stops newcomers.
    Gate,
    /// The row that checks share-lock.
    Guard,
}

/// What a permit is compared by.
#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite", feature = "mysql")),
    expect(dead_code, reason = "the engines read it")
)]
#[derive(Debug, Clone, Copy)]
pub struct Mark<'a> {
    pub(crate) resource: &'a str,
    pub(crate) generation: i64,
    pub(crate) owner: &'a [u8],
}

/// Whose mark a period gets.
#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite", feature = "mysql")),
    expect(dead_code, reason = "the engines read it")
)]
#[derive(Debug, Clone, Copy)]
pub struct OnceMark<'a> {
    pub(crate) job: &'a str,
    pub(crate) period: &'a str,
    pub(crate) owner: &'a [u8],
}

/// What bounds one step of a seal.
#[allow(dead_code, reason = "not every engine has both bounds")]
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Its wait for open transactions.
    pub(crate) wait: Duration,
    /// Idling in its transaction.
    pub(crate) idle: Duration,
}

/// The owner that a claim comes after; none has an empty nonce.
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
fn after<'a>(claim: &'a Claim<'_>) -> &'a [u8] {
    claim.after.as_ref().map_or(&[], |owner| &owner.as_bytes()[..])
}

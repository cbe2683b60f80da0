//! Protecting one transaction of the caller's.

use std::fmt;

use sqlx::Transaction;
use sqlx_core::transaction::TransactionManager;

use super::{Fence, Newest, database};
use crate::error::Error;
use crate::event;
use crate::permit::Permit;
use crate::sql::LeaseSql;
use crate::state::LossReason;
use crate::token::{FencingToken, OwnerHash};

const CHECK: &str = "check the permit";

/// Why a resource refuses a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The lease is over on the holder's side already; the resource was not asked.
    Lost {
        /// Why it is over.
        reason: LossReason,
    },
    /// A newer holder has sealed the resource, or is doing so.
    Superseded {
        /// Its generation.
        by: FencingToken,
    },
    /// Another owner has sealed the resource with the same number: the lock store was restored from an old copy. Acquire
    /// with the sealed generation as [floor](crate::Acquire::floor).
    OtherOwner {
        /// Its short hash.
        owner: OwnerHash,
    },
    /// The permit's generation is not sealed: [`Fence::seal`] comes first, or the resource's own.
    NotSealed,
    /// This generation has written the row already, and [`RowRule::Strict`](crate::RowRule::Strict) allows one write.
    Spent,
    /// There is no such row, or its generation is NULL.
    Absent,
}

impl Refusal {
    /// Why `newest` refuses `permit`, or did a moment ago.
    pub(super) fn of(permit: &Permit, newest: Option<&Newest>) -> Self {
        let Some(newest) = newest else { return Self::NotSealed };
        let by = newest.guard.map_or(newest.generation, |guard| guard.max(newest.generation));
        if by > permit.token() {
            Self::Superseded { by }
        } else if by == permit.token() && newest.owner != permit.owner().as_bytes() {
            Self::OtherOwner { owner: OwnerHash::of(&newest.owner) }
        } else {
            Self::NotSealed
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { reason } => write!(f, "its lease is lost ({reason})"),
            Self::Superseded { by } => write!(f, "generation {by} has taken over"),
            Self::OtherOwner { owner } => write!(f, "owner {owner} has sealed the same number"),
            Self::NotSealed => f.write_str("it is not sealed; seal first"),
            Self::Spent => f.write_str("it has written the row already"),
            Self::Absent => f.write_str("there is no such row, or its generation is NULL"),
        }
    }
}

impl Fence {
    /// Protects this transaction: whatever it writes, before or after, commits only under the permit's generation.
    ///
    /// A lease that is over is refused before the database is asked. Then one statement reads the gate and share-locks the
    /// guard row, until the transaction ends: a seal waits for it. Generation *and* owner must be those that are sealed. On
    /// PostgreSQL it also bounds how long the transaction may [idle](Fence::idle_timeout); use READ COMMITTED (at stricter
    /// levels an outdated snapshot is a serialization failure, which is as safe, but may come where a refusal would). On
    /// MariaDB nothing can be set for one transaction: use [`begin`](Fence::begin), or set `idle_transaction_timeout` on the pool's
    /// connections, or a process that is stopped here keeps the next holder from sealing until its connection ends. On
    /// SQLite it takes the file's write lock; call it before anything is read in the transaction, or it may be busy.
    ///
    /// Commit with `leastlock_core::commit`: sqlx's own may answer `Ok` for a transaction that PostgreSQL had aborted. That of
    /// [`begin`](Fence::begin) does not.
    ///
    /// It belongs in the transaction itself. What sqlx's `begin` answers inside of a transaction is a savepoint, and is not taken. One that was
    /// set by hand (`SAVEPOINT`) cannot be seen: do not check in it, since rolling it back frees the guard row.
    ///
    /// # Errors
    /// [`Error::Refused`] says why; [`Error::Database`] if the answer is not known. After either the transaction is made
    /// unable to commit, so that an error which is overlooked does no harm: roll it back. [`Error::Savepoint`] inside of one: that
    /// savepoint cannot be kept, but the transaction around it can commit.
    ///
    /// # Cancel safety
    /// Dropped half-way, the transaction may be unprotected: roll it back.
    pub async fn check<DB: LeaseSql>(&self, tx: &mut Transaction<'_, DB>, permit: &Permit) -> Result<(), Error> {
        let checked = match self.outside_of_savepoints(tx) {
            Ok(()) => self.checked(tx, permit).await,
            savepoint => savepoint,
        };
        if checked.is_err() {
            // A connection that cannot even be poisoned cannot commit either.
            let _poisoned = DB::poison(tx).await;
        }
        checked
    }

    async fn checked<DB: LeaseSql>(&self, tx: &mut Transaction<'_, DB>, permit: &Permit) -> Result<(), Error> {
        if let Err(Error::Lost { reason, .. }) = permit.held().standing() {
            return Err(self.refused(permit, Refusal::Lost { reason }));
        }
        let idle = self.idle_limit(permit.held().hold().ttl());
        if DB::check(tx, self.mark(permit), idle).await.map_err(database::<DB>(CHECK))? {
            return Ok(());
        }
        let newest = self.newest::<DB>(tx).await.map_err(database::<DB>(CHECK))?;
        Err(self.refused(permit, Refusal::of(permit, newest.as_ref())))
    }

    /// The rollback of a savepoint would free the guard row, and undo a refusal.
    pub(super) fn outside_of_savepoints<DB: LeaseSql>(&self, tx: &Transaction<'_, DB>) -> Result<(), Error> {
        if DB::TransactionManager::get_transaction_depth(tx) > 1 {
            return Err(Error::Savepoint { resource: self.resource.clone() });
        }
        Ok(())
    }

    /// The error of a refusal, which is logged as well: a refused late write is what fencing is for.
    pub(super) fn refused(&self, permit: &Permit, refusal: Refusal) -> Error {
        event::refused(permit, &self.resource, refusal);
        Error::Refused { resource: self.resource.clone(), generation: permit.token(), refusal }
    }
}

//! What operators see of a lock store, and how they take a lock away from its holder.
//!
//! All of it is plain functions on a store or a pool, which need no lease, no task and no other process, so that they work while the
//! application is down.

mod approval;
mod audit;
mod forced;
mod sql;

use std::fmt;

use crate::lock_name::LockName;
use crate::store::{Holder, LeaseStore, StoreError};

pub use approval::Approval;
pub use audit::{AuditEntry, AuditOutcome, audit};
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
pub(crate) use forced::{Answer, audited};
pub use forced::{Forced, Seizure};

/// A lock store that lets itself be looked at.
///
/// # Contract
/// - Looking changes nothing: no lease is extended or ended by it, and no waiter overtaken.
/// - What is answered stood at the store at one moment, by the store's clock; it may be different by now.
pub trait Inspect: LeaseStore {
    /// What stands for one lock; `None` if it was never held, or the store has kept nothing of it.
    fn inspect(&self, name: &LockName) -> impl Future<Output = Result<Option<LockRecord>, StoreError>> + Send;

    /// The locks that are held, in the order of their names, from behind `after`; `limit` of them at most. Ask again, with the
    /// last name, until there are less.
    fn list(
        &self,
        after: Option<&LockName>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<LockRecord>, StoreError>> + Send;
}

/// What stands at a store for one lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockRecord {
    /// The lock.
    pub name: LockName,
    /// Whether its last holder has it still.
    pub standing: Standing,
    /// Its last holder.
    pub holder: Holder,
}

impl LockRecord {
    /// A record.
    #[must_use]
    pub const fn new(name: LockName, standing: Standing, holder: Holder) -> Self {
        Self { name, standing, holder }
    }
}

impl fmt::Display for LockRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: {}", self.name, self.standing, self.holder)
    }
}

/// Whether a lock's last holder has it still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Standing {
    /// Its lease stands.
    Held,
    /// Its lease has run out. Whoever asks next gets the lock.
    Expired,
    /// It has released, or somebody took it away.
    Released,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held => "held",
            Self::Expired => "expired",
            Self::Released => "released",
        })
    }
}

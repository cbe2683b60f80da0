//! The contenders, and one cycle of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::ValueEnum;
use leastlock_lease::{Acquire, Hold, Kind, Lease, Leases, LockName, OwnerNonce, Released};

use super::locks::{Locks, TTL_MS};

/// How often a polling loop asks.
const POLL: Duration = Duration::from_millis(1);
/// Longer than any turn.
const PATIENCE: Duration = Duration::from_mins(2);

/// A way to take a lock and to give it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// The two commands, by hand.
    Raw,
    /// The two commands, by hand, the first again every millisecond until it takes the lock.
    Polling,
    /// leastlock, with a fencing token.
    Fenced,
    /// leastlock, without.
    Efficiency,
    /// leastlock, with a fencing token; each client as a process of its own, so that only the store can wake it.
    Apart,
}

impl Way {
    /// Its name in the report.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Raw => "two commands",
            Self::Polling => "two commands, polled every ms",
            Self::Fenced => "leastlock, fenced",
            Self::Efficiency => "leastlock, efficiency",
            Self::Apart => "leastlock, fenced, processes apart",
        }
    }
}

/// A lock, and what is known of its holders.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) name: LockName,
    taken: AtomicBool,
    /// The last token.
    token: AtomicI64,
}

impl Door {
    pub(super) fn new(name: &str) -> anyhow::Result<Self> {
        Ok(Self { name: LockName::new(name)?, taken: AtomicBool::new(false), token: AtomicI64::new(0) })
    }

    /// Fails if somebody else is inside.
    fn enter(&self) -> anyhow::Result<()> {
        ensure!(!self.taken.swap(true, Ordering::SeqCst), "two hold {} at once", self.name);
        Ok(())
    }

    fn leave(&self) {
        self.taken.store(false, Ordering::SeqCst);
    }

    /// Fails unless it is above all before.
    fn token(&self, token: i64) -> anyhow::Result<()> {
        let before = self.token.fetch_max(token, Ordering::SeqCst);
        ensure!(before < token, "{} was given token {token} after {before}", self.name);
        Ok(())
    }
}

/// What one client has.
pub(super) struct Client<L: Locks> {
    pub(super) way: Way,
    pub(super) driver: Arc<L::Driver>,
    pub(super) leases: Leases<L::Store>,
    pub(super) door: Arc<Door>,
}

impl<L: Locks> Client<L> {
    /// Takes the lock and gives it up; answers how long it waited for it.
    pub(super) async fn cycle(&self) -> anyhow::Result<Duration> {
        let (began, name) = (Instant::now(), &self.door.name);
        match self.way {
            Way::Raw | Way::Polling => {
                // An owner of its own each time, as it must be.
                let owner = OwnerNonce::random()?;
                let owner = &owner.as_bytes()[..];
                while !L::take(&self.driver, name, owner).await? {
                    ensure!(self.way == Way::Polling, "{name} is held by a stranger");
                    tokio::time::sleep(POLL).await;
                }
                let waited = began.elapsed();
                self.door.enter()?;
                self.door.leave();
                ensure!(L::give_up(&self.driver, name, owner).await?, "{name} was somebody else's");
                Ok(waited)
            }
            Way::Fenced | Way::Apart => {
                let lease = self.leases.acquire_with(name, hold()?, Acquire::waiting(PATIENCE)).await?;
                let waited = began.elapsed();
                self.door.enter()?;
                self.door.token(lease.token().value())?;
                self.end(lease, waited).await
            }
            Way::Efficiency => {
                let lease = self.leases.acquire_efficiency_with(name, hold()?, Acquire::waiting(PATIENCE)).await?;
                let waited = began.elapsed();
                self.door.enter()?;
                self.end(lease, waited).await
            }
        }
    }

    async fn end<K: Kind>(&self, lease: Lease<K>, waited: Duration) -> anyhow::Result<Duration> {
        self.door.leave();
        let released = lease.release().await;
        ensure!(released == Released::Released, "{} was {released:?}", self.door.name);
        Ok(waited)
    }
}

fn hold() -> anyhow::Result<Hold> {
    Ok(Hold::renewed(Duration::from_millis(u64::try_from(TTL_MS)?)))
}

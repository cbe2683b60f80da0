//! Where leases come from.

use std::sync::Arc;

use crate::acquire::{Acquire, acquire};
use crate::clock::{BootClock, Clock};
use crate::error::Error;
use crate::held::{Acquisition, Held, Means};
use crate::hold::Hold;
use crate::kind::Granted;
use crate::lease::{CorrectnessLease, EfficiencyLease};
use crate::lock_name::LockName;
use crate::queue::Queues;
use crate::renewal::Renewals;
use crate::store::{FencedStore, LeaseStore};
use crate::token::OwnerNonce;

/// Acquires leases from one lock store. Cheap to clone.
///
/// The waiters of one `Leases` and its clones take turns in the order in which they came, and one of them at a time asks the store
/// (unless the store has an order of its own); a lease that ends among them wakes the next one without the store. Once they have had
/// a lock for two seconds, they let other processes come first after the next release. So a process
/// should have one `Leases` for a store.
///
/// ```
/// use std::time::Duration;
/// use leastlock_lease::{Acquire, Error, Hold, Leases, LockName, SqlLeaseStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # leastlock_lease::MIGRATIONS.run(&pool).await?;
/// let leases = Leases::new(SqlLeaseStore::new(&pool));
/// let name = LockName::new("job:settlement")?;
/// let lease = leases.acquire(&name, Hold::renewed(Duration::from_secs(30))).await?;
///
/// let second = leases.acquire_with(&name, Hold::fixed(Duration::from_secs(5)), Acquire::fail_fast()).await;
/// assert!(matches!(second, Err(Error::Held { holder, .. }) if holder.token == Some(lease.token())));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Leases<S> {
    store: Arc<S>,
    queues: Arc<Queues>,
    renewals: Arc<Renewals>,
    clock: Arc<dyn Clock>,
}

impl<S: LeaseStore> Leases<S> {
    /// Leases from `store`, with deadlines by [`BootClock`].
    pub fn new(store: S) -> Self {
        Self { store: Arc::new(store), queues: Arc::default(), renewals: Arc::default(), clock: Arc::new(BootClock) }
    }

    /// Measures deadlines with another clock.
    #[must_use]
    pub fn clock(self, clock: impl Clock) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// Acquires a lease without a token, waiting up to 10 s for another holder.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_efficiency(&self, name: &LockName, hold: Hold) -> Result<EfficiencyLease, Error> {
        self.acquire_efficiency_with(name, hold, Acquire::default()).await
    }

    /// Acquires a lease without a token, as `policy` says.
    ///
    /// Released, a renewed lease goes to the next waiter of this process that wants one with the same TTL and drift allowance, without
    /// a trip to the store, up to 32 times in a row and for two seconds; the store goes on showing the first holder's job and age.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_efficiency_with(
        &self,
        name: &LockName,
        hold: Hold,
        policy: Acquire,
    ) -> Result<EfficiencyLease, Error> {
        let (acquired, kind) = self.held(name, hold, policy).await?;
        Ok(EfficiencyLease::new(acquired, kind))
    }

    pub(crate) fn store(&self) -> Arc<S> {
        Arc::clone(&self.store)
    }

    async fn held<K: Granted<S::Token>>(
        &self,
        name: &LockName,
        hold: Hold,
        policy: Acquire,
    ) -> Result<(Arc<Held>, K), Error> {
        hold.check()?;
        let (floor, job) = policy.parts();
        let acquisition = Acquisition { name: name.clone(), nonce: OwnerNonce::random()?, hold, floor, job };
        let Self { store, queues, renewals, clock } = self.clone();
        acquire(Means { store, queues, renewals, clock }, acquisition, policy).await
    }
}

impl<S: FencedStore> Leases<S> {
    /// Acquires the lock, waiting up to 10 s for another holder.
    ///
    /// # Errors
    /// [`Error::Held`] shows who holds it; [`Error::Unanswered`] after a wait without an answer. Otherwise as the variants
    /// of [`Error`] say.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropped, it gives back in the background what an attempt in flight is granted. If the store does not answer, the
    /// lock is free after the TTL.
    pub async fn acquire(&self, name: &LockName, hold: Hold) -> Result<CorrectnessLease, Error> {
        self.acquire_with(name, hold, Acquire::default()).await
    }

    /// Acquires the lock as `policy` says.
    ///
    /// An attempt that is not answered in time may have succeeded: it is repeated with the same nonce, finds itself the
    /// owner, with the same token, and extends its lease.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_with(&self, name: &LockName, hold: Hold, policy: Acquire) -> Result<CorrectnessLease, Error> {
        let (acquired, kind) = self.held(name, hold, policy).await?;
        Ok(CorrectnessLease::new(acquired, kind))
    }
}

impl<S> Clone for Leases<S> {
    fn clone(&self) -> Self {
        let (queues, renewals) = (Arc::clone(&self.queues), Arc::clone(&self.renewals));
        Self { store: Arc::clone(&self.store), queues, renewals, clock: Arc::clone(&self.clock) }
    }
}

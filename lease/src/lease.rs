//! A lease: held, renewed in the background, and ended in one of few ways.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::accessors::{accessors, fenced_accessors};
use crate::held::Held;
use crate::kind::{Correctness, Efficiency, Kind};
use crate::release::{Released, release};
use crate::renewal::RenewalTask;
use crate::state::LossReason;

/// A lease whose failure would corrupt data, with a fencing token that the resource checks.
///
/// It comes only from a store whose tokens are monotonic and durable ([`FencedStore`](crate::FencedStore)). It does not
/// promise that nobody else believes to hold the lock: it gives [`Permit`](crate::Permit)s, and the resource refuses all but the
/// newest. How it is used and how it ends is said at [`Lease`].
///
/// ```
/// use std::time::Duration;
/// use leastlock_lease::{Hold, Leases, LockName, Released, SqlLeaseStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # leastlock_lease::MIGRATIONS.run(&pool).await?;
/// let leases = Leases::new(SqlLeaseStore::new(&pool));
/// let lease = leases.acquire(&LockName::new("job:settlement")?, Hold::renewed(Duration::from_secs(30))).await?;
/// let permit = lease.permit()?;
/// assert_eq!(lease.release().await, Released::Released);
/// assert!(permit.remaining().is_err());
/// # Ok(())
/// # }
/// ```
pub type CorrectnessLease = Lease<Correctness>;

/// A lease that saves work from being done twice, from any store.
///
/// It may be held twice: after a pause of its holder, and on some stores after a restart or a fail-over. So it has no token and
/// gives no [`Permit`](crate::Permit), and a protected resource does not take it. How it is used and how it ends is said at
/// [`Lease`].
///
/// ```
/// use std::time::Duration;
/// use leastlock_lease::{Hold, Leases, LockName, SqlLeaseStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # leastlock_lease::MIGRATIONS.run(&pool).await?;
/// let leases = Leases::new(SqlLeaseStore::new(&pool));
/// let name = LockName::new("cache:prices")?;
/// let lease = leases.acquire_efficiency(&name, Hold::renewed(Duration::from_secs(30))).await?;
/// let filled = lease.run(async |_scope| Ok("filled by one, or now and then by two"));
/// assert!(filled.await.is_ok());
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0599
/// fn permitted(lease: &leastlock_lease::EfficiencyLease) {
///     let _ = lease.permit();
/// }
/// ```
pub type EfficiencyLease = Lease<Efficiency>;

/// A lease of either kind: [`EfficiencyLease`] or [`CorrectnessLease`].
///
/// Use it by [`run`](Self::run), which ties its renewal to the work. Used by hand it is renewed in the background until it
/// is [released](Self::release) or dropped. Dropped, it ends its renewal, refuses its permits, and is left to expire,
/// because nobody said that the work was done.
#[must_use = "a lease that is dropped keeps others out until it expires"]
pub struct Lease<K: Kind> {
    held: Arc<Held>,
    kind: K,
    renewal: Option<RenewalTask>,
    cancel: CancellationToken,
    cancel_deadline: Duration,
}

impl<K: Kind> Lease<K> {
    /// How long cancelled work gets to end by itself, and dropped tasks to be gone, unless
    /// [`cancel_deadline`](Self::cancel_deadline) says otherwise.
    pub const DEFAULT_CANCEL_DEADLINE: Duration = Duration::from_secs(5);

    pub(crate) fn new(held: Arc<Held>, kind: K) -> Self {
        let renewal = Some(RenewalTask::start(Arc::clone(&held)));
        let cancel = CancellationToken::new();
        Self { held, kind, renewal, cancel, cancel_deadline: Self::DEFAULT_CANCEL_DEADLINE }
    }

    /// Cancels the work of [`run`](Self::run) when `cancel` is cancelled.
    pub fn cancelled_by(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// How long cancelled work gets to end by itself (never longer than the lease lasts), and dropped tasks to be gone.
    pub fn cancel_deadline(mut self, deadline: Duration) -> Self {
        self.cancel_deadline = deadline;
        self
    }

    accessors!();

    /// Waits until the lease is over.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) {
        self.held.over().cancelled().await;
    }

    /// Releases the lock: ends the renewal, waits for the one in flight, refuses all permits, and tells the store. Call it
    /// only when it is known what the work has done.
    ///
    /// # Cancel safety
    /// Dropped, it goes on in the background.
    pub async fn release(mut self) -> Released {
        release(Arc::clone(&self.held), self.renewal.take()).await
    }

    pub(crate) fn into_parts(mut self) -> (Arc<Held>, K, Option<RenewalTask>, CancellationToken, Duration) {
        let (held, cancel) = (Arc::clone(&self.held), self.cancel.clone());
        let renewal = self.renewal.take();
        (held, self.kind, renewal, cancel, self.cancel_deadline)
    }
}

impl Lease<Correctness> {
    fenced_accessors!();
}

impl<K: Kind> Drop for Lease<K> {
    fn drop(&mut self) {
        if let Some(renewal) = self.renewal.take() {
            renewal.stop();
            self.held.end(LossReason::Abandoned);
        }
    }
}

impl<K: Kind> fmt::Debug for Lease<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("held", &self.held).finish_non_exhaustive()
    }
}

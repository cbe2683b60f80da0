//! A lease whose failure would corrupt data, and which is therefore fenced.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::held::Held;
use crate::lock_name::LockName;
use crate::permit::Permit;
use crate::release::{Released, release};
use crate::renewal::RenewalTask;
use crate::state::{LeaseStatus, LossReason};
use crate::token::FencingToken;

/// A lease with a fencing token that the resource checks.
///
/// It comes only from a store whose tokens are monotonic and durable ([`FencedStore`](crate::FencedStore)). It does not
/// promise that nobody else believes to hold the lock: it gives [`Permit`]s, and the resource refuses all but the newest.
///
/// Use it by [`run`](Self::run), which ties its renewal to the work. Used by hand it is renewed in the background until it
/// is [released](Self::release) or dropped. Dropped, it ends its renewal, refuses its permits, and is left to expire,
/// because nobody said that the work was done.
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
#[derive(Debug)]
#[must_use = "a lease that is dropped keeps others out until it expires"]
pub struct CorrectnessLease {
    held: Arc<Held>,
    token: FencingToken,
    renewal: Option<RenewalTask>,
    cancel: CancellationToken,
    cancel_deadline: Duration,
}

impl CorrectnessLease {
    /// How long cancelled work gets to end by itself, and dropped tasks to be gone, unless
    /// [`cancel_deadline`](Self::cancel_deadline) says otherwise.
    pub const DEFAULT_CANCEL_DEADLINE: Duration = Duration::from_secs(5);

    pub(crate) fn new(held: Arc<Held>, token: FencingToken) -> Self {
        let renewal = Some(RenewalTask::start(Arc::clone(&held)));
        let cancel = CancellationToken::new();
        Self { held, token, renewal, cancel, cancel_deadline: Self::DEFAULT_CANCEL_DEADLINE }
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

    /// A permit for a protected resource.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lease is over, which is noticed here after a pause as well; [`Error::Unconfirmed`] while a
    /// renewal is unanswered.
    pub fn permit(&self) -> Result<Permit, Error> {
        Permit::new(&self.held, self.token)
    }

    /// The lock.
    #[must_use]
    pub fn name(&self) -> &LockName {
        self.held.name()
    }

    /// The fencing token. It does not change by renewals.
    #[must_use]
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// What may be believed of the lease now.
    #[must_use]
    pub fn status(&self) -> LeaseStatus {
        self.held.status()
    }

    /// How long the lease lasts from now on, unless it is renewed.
    ///
    /// # Errors
    /// [`Error::Lost`] if it is over.
    pub fn remaining(&self) -> Result<Duration, Error> {
        self.held.remaining()
    }

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

    pub(crate) fn into_parts(mut self) -> (Arc<Held>, FencingToken, Option<RenewalTask>, CancellationToken, Duration) {
        let (held, cancel) = (Arc::clone(&self.held), self.cancel.clone());
        let renewal = self.renewal.take();
        (held, self.token, renewal, cancel, self.cancel_deadline)
    }
}

impl Drop for CorrectnessLease {
    fn drop(&mut self) {
        if let Some(renewal) = self.renewal.take() {
            renewal.stop();
            self.held.end(LossReason::Abandoned);
        }
    }
}

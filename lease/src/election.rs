//! One leader among many candidates, for as long as it lasts.

mod observer;
#[cfg(test)]
mod tests;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use leastlock_core::Backoff;
use sqlx::Pool;
use tokio_util::sync::CancellationToken;

use crate::acquire::Acquire;
use crate::admin::{Inspect, LockRecord};
use crate::capabilities::Order;
use crate::error::Error;
use crate::fence::Fence;
use crate::hold::Hold;
use crate::lease::CorrectnessLease;
use crate::leases::Leases;
use crate::lock_name::LockName;
use crate::release::Released;
use crate::scope::Scope;
use crate::sql::LeaseSql;
use crate::state::{LeaseStatus, LossReason};
use crate::store::FencedStore;
use crate::token::FencingToken;
use crate::work_error::WorkError;

pub use observer::{Leadership, Observer};

/// How long one acquisition of a campaign waits; another follows, which asks anew what is sealed.
const ROUND: Duration = Duration::from_mins(10);
/// The same where the store has a queue: another acquisition would stand at its end.
const ROUND_IN_A_QUEUE: Duration = Duration::from_hours(24 * 365);

/// Asks which generation is sealed.
type Floor = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Option<FencingToken>, Error>> + Send>> + Send + Sync>;

/// One leader among many candidates, kept by a lease.
///
/// A term of leadership is a [`CorrectnessLease`]: its token numbers the terms, and rises with each. Several processes may *believe* that
/// they lead at once, as with every lease; what a leader writes is told apart by its [`Permit`](crate::Permit) at the resource.
///
/// | | |
/// |---|---|
/// | [`campaign`](Self::campaign) | waits, without a limit, to be elected |
/// | [`lead`](Self::lead) | campaigns, leads, and campaigns again when a term is lost, until the shutdown |
/// | [`hand_over`](Self::hand_over) | resigns, and stands back until another one leads |
/// | [`Lease::release`](crate::Lease::release) of a term | resigns |
/// | [`observe`](Self::observe) | who leads, for those who do not |
///
/// | limit | default |
/// |---|---|
/// | a term | 30 days ([`longest_term`](Self::longest_term)) |
///
/// ```
/// use std::time::Duration;
/// use leastlock_lease::{Election, Leadership, Leases, LockName, SqlLeaseStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # leastlock_lease::MIGRATIONS.run(&pool).await?;
/// let leases = Leases::new(SqlLeaseStore::new(&pool));
/// let election = Election::new(leases, LockName::new("leader:scheduler")?, Duration::from_secs(10)).candidate("node-a");
///
/// # let shutdown = tokio_util::sync::CancellationToken::new();
/// # let stop = shutdown.clone();
/// election.lead(shutdown, async |scope| {
///     let permit = scope.permit()?; // of this term
///     // fence.seal(&pool, &permit).await?; and then what only a leader does, until:
/// #   let mut observer = election.observe();
/// #   assert!(matches!(observer.changed().await?, Leadership::Led(holder) if holder.token == Some(permit.token())));
/// #   stop.cancel();
///     scope.cancelled().await;
///     Ok(())
/// }).await?;
/// # Ok(())
/// # }
/// ```
pub struct Election<S> {
    leases: Leases<S>,
    name: LockName,
    hold: Hold,
    candidate: Option<String>,
    floor: Option<Floor>,
}

/// What became of a [`hand_over`](Election::hand_over).
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum HandedOver {
    /// Another one leads.
    To(LockRecord),
    /// Nobody has come for as long as was waited. The leadership is vacant.
    Nobody,
}

/// How a [`lead`](Election::lead) went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Led {
    /// How often it was elected.
    pub terms: u64,
    /// How many of these terms were lost.
    pub lost: u64,
}

impl<S: FencedStore> Election<S> {
    /// The longest term, unless [`longest_term`](Self::longest_term) says otherwise.
    pub const DEFAULT_LONGEST_TERM: Duration = Duration::from_hours(24 * 30);

    /// An election for the lock `name`. A leader that dies is followed by another after `ttl`.
    #[must_use]
    pub const fn new(leases: Leases<S>, name: LockName, ttl: Duration) -> Self {
        Self {
            leases,
            name,
            hold: Hold::renewed(ttl).max_hold(Self::DEFAULT_LONGEST_TERM),
            candidate: None,
            floor: None,
        }
    }

    /// What this candidate is called: observers and operators see it, as the job of the lease.
    #[must_use]
    pub fn candidate(mut self, candidate: impl Into<String>) -> Self {
        self.candidate = Some(candidate.into());
        self
    }

    /// Elects above the generation that is sealed at this fence: should the lock store come back from an old copy, its tokens would be
    /// refused there, term after term. Asked at each election, as [`floor`](Self::floor).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leastlock_lease::{Election, Fence, Leases, LockName, SqlLeaseStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    /// # leastlock_lease::MIGRATIONS.run(&pool).await?;
    /// # let (leases, ttl) = (Leases::new(SqlLeaseStore::new(&pool)), Duration::from_secs(10));
    /// let fence = Fence::new("schedule")?;
    /// let election = Election::new(leases, LockName::new("leader:scheduler")?, ttl).floor_of(&fence, &pool);
    /// let term = election.campaign().await?;
    /// fence.seal(&pool, &term.permit()?).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn floor_of<DB: LeaseSql>(self, fence: &Fence, pool: &Pool<DB>) -> Self {
        let (fence, pool) = (fence.clone(), pool.clone());
        self.floor(move || {
            let (fence, pool) = (fence.clone(), pool.clone());
            async move { fence.generation(&pool).await }
        })
    }

    /// Elects above what `floor` answers: the generation that is sealed at the resource, whatever it is.
    ///
    /// It is asked before each acquisition, and again when that has succeeded: a term that is not above it is given back, and the next
    /// is. On a store that cannot raise its counter (etcd, ZooKeeper) that ends the campaign with [`Error::TokenBelowFloor`].
    ///
    /// An error that is [retryable](Error::is_retryable) is waited for, as a store that is away; any other ends the campaign.
    #[must_use]
    pub fn floor<F, Fut>(mut self, floor: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<FencingToken>, Error>> + Send + 'static,
    {
        self.floor = Some(Arc::new(move || Box::pin(floor())));
        self
    }

    /// A term is lost after so long, however well its renewals go, and another election follows.
    #[must_use]
    pub const fn longest_term(mut self, longest: Duration) -> Self {
        self.hold = self.hold.max_hold(longest);
        self
    }

    /// Waits to be elected, without a limit.
    ///
    /// # Errors
    /// What waiting cannot mend: [`Error::Store`] that is not [retryable](Error::is_retryable), [`Error::Hold`],
    /// [`Error::TokenBelowFloor`] and the like. A store that is away is waited for.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// As [`Leases::acquire`]: dropped, it gives back what it is granted.
    pub async fn campaign(&self) -> Result<CorrectnessLease, Error> {
        let (backoff, mut failed) = (Backoff::default(), 0);
        loop {
            match self.round().await {
                Ok(Some(term)) => return Ok(term),
                Ok(None) => failed = 0,
                Err(error) if error.is_retryable() => {
                    tokio::time::sleep(backoff.delay(failed)).await;
                    failed += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// One acquisition; `None` if another one leads still, or the term would be refused at the resource.
    async fn round(&self) -> Result<Option<CorrectnessLease>, Error> {
        let round = if S::CAPABILITIES.order == Order::Fifo { ROUND_IN_A_QUEUE } else { ROUND };
        let mut policy = Acquire::waiting(round).floor(self.sealed().await?);
        if let Some(candidate) = &self.candidate {
            policy = policy.job(candidate.clone());
        }
        let term = match self.leases.acquire_with(&self.name, self.hold, policy).await {
            Err(Error::Held { .. }) => return Ok(None),
            term => term?,
        };
        // Others may have led and sealed while this one waited, and the store may have come back from a copy after that.
        let sealed = self.sealed().await;
        if matches!(sealed, Ok(sealed) if sealed < Some(term.token())) {
            return Ok(Some(term));
        }
        let _released = term.release().await;
        sealed.map(|_| None)
    }

    async fn sealed(&self) -> Result<Option<FencingToken>, Error> {
        match &self.floor {
            Some(floor) => floor().await,
            None => Ok(None),
        }
    }

    /// Campaigns, and runs `work` for each term, as [`Lease::run`](crate::Lease::run) does, until `shutdown` is cancelled.
    ///
    /// A term that is lost ends its work, and another campaign follows. Work that answers `Ok` while its term stands resigns for good.
    /// Cancelled, the work is asked to end by [`Scope::cancelled`], and the leadership is given up as soon as it has.
    ///
    /// To spawn it, `work` must own what each term uses, which an `async` closure only lends:
    /// `move |scope| { let pool = pool.clone(); async move { … } }`.
    ///
    /// # Errors
    /// What the work said, and what [`campaign`](Self::campaign) says.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// As [`Lease::run`](crate::Lease::run): dropped, the term is left to expire.
    pub async fn lead<F, Fut>(&self, shutdown: CancellationToken, mut work: F) -> Result<Led, Error>
    where
        F: FnMut(Scope) -> Fut,
        Fut: Future<Output = Result<(), WorkError>>,
    {
        let mut led = Led { terms: 0, lost: 0 };
        loop {
            let term = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(led),
                term = self.campaign() => term?,
            };
            led.terms += 1;
            let mut of_term = None;
            let ran = term.cancelled_by(shutdown.clone()).run(|scope| {
                of_term = Some(scope.clone());
                work(scope)
            });
            match ran.await {
                // Work that waits for its end may answer before the loss has ended it.
                Ok(()) if of_term.is_some_and(|scope| is_lost(scope.status())) => led.lost += 1,
                Ok(()) => return Ok(led),
                Err(Error::Lost { name, .. }) if name == self.name => led.lost += 1,
                Err(Error::Cancelled { .. }) if shutdown.is_cancelled() => return Ok(led),
                Err(error) => return Err(error),
            }
        }
    }
}

impl<S> fmt::Debug for Election<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, hold, candidate) = (&self.name, &self.hold, &self.candidate);
        f.debug_struct("Election")
            .field("name", name)
            .field("hold", hold)
            .field("candidate", candidate)
            .finish_non_exhaustive()
    }
}

/// Whether it ended otherwise than by its own release.
fn is_lost(status: LeaseStatus) -> bool {
    matches!(status, LeaseStatus::Lost { reason } if reason != LossReason::Released)
}

impl<S: FencedStore + Inspect> Election<S> {
    /// Who leads, for those who do not.
    #[must_use]
    pub fn observe(&self) -> Observer<S> {
        Observer::new(self.leases.store(), self.name.clone(), self.hold.ttl())
    }

    /// Resigns, and stands back until another one leads, for `patience` at most: a candidate that campaigned again at once could be
    /// elected again. Call it when what the leader had to do is done.
    ///
    /// # Errors
    /// [`Error::Lost`] if the term was over already. An observer's errors, after which it is not known who leads; the term is given
    /// up in any case.
    ///
    /// # Cancel safety
    /// Dropped, the release goes on in the background.
    pub async fn hand_over(&self, term: CorrectnessLease, patience: Duration) -> Result<HandedOver, Error> {
        let token = term.token();
        if let LeaseStatus::Lost { reason } = term.status() {
            return Err(Error::Lost { name: self.name.clone(), reason });
        }
        if term.release().await == Released::NotOwner {
            return Err(Error::Lost { name: self.name.clone(), reason: LossReason::NotOwner });
        }
        let observer = self.observe();
        let successor = async {
            // Whoever waits is elected soon.
            let mut looks = 0_u32;
            loop {
                if let Some(record) = observer.successor_of(token, looks).await? {
                    return Ok(HandedOver::To(record));
                }
                looks = looks.saturating_add(1);
            }
        };
        tokio::time::timeout(patience, successor).await.unwrap_or(Ok(HandedOver::Nobody))
    }
}

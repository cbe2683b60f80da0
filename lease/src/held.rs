//! One acquisition, shared by the lease, its renewal, its scopes and its permits.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::clock::{BootTime, Clock};
use crate::error::Error;
use crate::event;
use crate::hold::Hold;
use crate::lock_name::LockName;
use crate::measure;
use crate::queue::{Baton, Passed, Queues, Succession, Turns};
use crate::renewal::Renewals;
use crate::state::{LeaseState, LeaseStatus, LossReason, RenewalAnswer};
use crate::store::{Claim, LeaseStore, Release, Renewal, StoreError, StoreToken};
use crate::token::{FencingToken, OwnerNonce};

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What was acquired, and for whom.
#[derive(Debug, Clone)]
pub(crate) struct Acquisition {
    pub(crate) name: LockName,
    pub(crate) nonce: OwnerNonce,
    pub(crate) hold: Hold,
    pub(crate) floor: Option<FencingToken>,
    pub(crate) job: Option<Arc<str>>,
}

impl Acquisition {
    pub(crate) fn claim(&self) -> Claim<'_> {
        let mut claim = Claim::new(&self.name, self.nonce, self.hold.ttl());
        claim.floor = self.floor;
        claim.job = self.job.as_deref();
        claim
    }
}

/// One acquisition: what is fixed, and the state that everybody who depends on it looks at.
pub(crate) struct Held {
    acquisition: Acquisition,
    token: Option<FencingToken>,
    requests: Arc<dyn Requests>,
    queues: Arc<Queues>,
    renewals: Arc<Renewals>,
    /// How often it may go on to another waiter of this process.
    turns: Turns,
    clock: Arc<dyn Clock>,
    state: Mutex<LeaseState>,
    over: CancellationToken,
    measured: measure::Holding,
}

/// What an acquisition is made with.
pub(crate) struct Means<S> {
    pub(crate) store: Arc<S>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) renewals: Arc<Renewals>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Held {
    /// What the store has granted.
    pub(crate) fn granted<S: LeaseStore>(
        acquisition: Acquisition,
        means: &Means<S>,
        token: S::Token,
        state: LeaseState,
        turns: Turns,
    ) -> Self {
        let requests = Arc::new(Granted { store: Arc::clone(&means.store), token });
        let (queues, renewals) = (Arc::clone(&means.queues), Arc::clone(&means.renewals));
        let clock = Arc::clone(&means.clock);
        let (state, over) = (Mutex::new(state), CancellationToken::new());
        let (token, measured) = (token.fencing_token(), measure::Holding::begin());
        Self { acquisition, token, requests, queues, renewals, turns, clock, state, over, measured }
    }

    /// What another holder of this process has handed on: to the store it is the same acquisition.
    pub(crate) fn handed_on<S>(mut acquisition: Acquisition, means: &Means<S>, baton: Baton) -> Self {
        acquisition.nonce = baton.nonce;
        let state = LeaseState::handed_on(acquisition.hold, means.clock.now(), baton.left);
        let (queues, renewals) = (Arc::clone(&means.queues), Arc::clone(&means.renewals));
        let clock = Arc::clone(&means.clock);
        let (state, over) = (Mutex::new(state), CancellationToken::new());
        let Baton { token, requests, turns, .. } = baton;
        let measured = measure::Holding::begin();
        Self { acquisition, token, requests, queues, renewals, turns, clock, state, over, measured }
    }

    pub(crate) fn name(&self) -> &LockName {
        &self.acquisition.name
    }

    pub(crate) fn nonce(&self) -> &OwnerNonce {
        &self.acquisition.nonce
    }

    pub(crate) fn hold(&self) -> &Hold {
        &self.acquisition.hold
    }

    pub(crate) fn job(&self) -> Option<&str> {
        self.acquisition.job.as_deref()
    }

    pub(crate) fn renewals(&self) -> &Arc<Renewals> {
        &self.renewals
    }

    pub(crate) fn token(&self) -> Option<FencingToken> {
        self.token
    }

    pub(crate) fn now(&self) -> BootTime {
        self.clock.now()
    }

    /// Cancelled when the lease is over, whoever notices it.
    pub(crate) fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// The status now; a deadline that has passed is noticed here.
    pub(crate) fn status(&self) -> LeaseStatus {
        self.change(LeaseState::observe)
    }

    /// The status if the lease stands, else why not.
    pub(crate) fn standing(&self) -> Result<LeaseStatus, Error> {
        match self.status() {
            LeaseStatus::Lost { reason } => Err(Error::Lost { name: self.name().clone(), reason }),
            status => Ok(status),
        }
    }

    /// Whether a new permit may be given.
    pub(crate) fn permits(&self) -> Result<(), Error> {
        match self.standing()? {
            LeaseStatus::Unconfirmed { .. } if !self.hold().gives_permits_while_unconfirmed() => {
                Err(Error::Unconfirmed { name: self.name().clone() })
            }
            _ => Ok(()),
        }
    }

    /// How long the client may still believe that it holds, from now on.
    pub(crate) fn remaining(&self) -> Result<Duration, Error> {
        self.standing()?;
        let deadline = self.lock().deadline();
        Ok(deadline.map_or(Duration::ZERO, |deadline| deadline.since(self.now())))
    }

    pub(crate) fn renewal_due(&self) -> Option<BootTime> {
        self.lock().renewal_due()
    }

    /// What the store has granted last, by which the renewals go.
    pub(crate) fn ttl(&self) -> Duration {
        self.lock().ttl()
    }

    /// Sends one renewal and takes in what it brought. Bounded by a sixth of the TTL.
    pub(crate) async fn renew(&self) -> LeaseStatus {
        let (sent, measured) = (self.now(), measure::Renewing::begin());
        let attempt = self.requests.renew(self.acquisition.claim());
        let limit = self.hold().attempt_timeout().min(self.ttl() / 6);
        let answer = match tokio::time::timeout(limit, attempt).await {
            Ok(Ok(Renewal::Renewed { ttl })) => RenewalAnswer::Confirmed { ttl },
            Ok(Ok(Renewal::NotOwner)) => RenewalAnswer::NotOwner,
            Ok(Err(error)) => {
                event::renewal_failed(self, Some(&error));
                RenewalAnswer::Unanswered
            }
            Err(_elapsed) => {
                event::renewal_failed(self, None);
                RenewalAnswer::Unanswered
            }
        };
        measured.ended(answer);
        self.change(|state, now| state.renewal(now, sent, answer))
    }

    /// Sends one release. `None` if it was not answered. Bounded by a sixth of the TTL.
    pub(crate) async fn release(&self) -> Option<Release> {
        let attempt = self.requests.release(self.acquisition.claim());
        tokio::time::timeout(self.hold().attempt_timeout(), attempt).await.ok()?.ok()
    }

    /// Ends the hold as released, and gives what is left of it to the next waiter of this process, if enough is left: as it is, where the
    /// kind of the lease allows that, else by leaving the release to that one's acquisition, where the store takes over.
    pub(crate) fn hand_on(self: &Arc<Self>) -> Handed {
        let (left, deadline) = {
            let state = self.lock();
            (state.left(), state.deadline())
        };
        let enough = deadline.is_some_and(|deadline| deadline.since(self.now()) >= self.ttl() / 3);
        self.end(LossReason::Released);
        if !enough {
            return Handed::Nowhere;
        }
        let nonce = self.acquisition.nonce;
        if let Some((turns, left)) = self.turns.handed_on(self.now()).zip(left) {
            let (token, requests) = (self.token, Arc::clone(&self.requests));
            let baton = Baton { nonce, token, requests, hold: *self.hold(), left, turns };
            if self.queues.hand_on(self.name(), baton) {
                return Handed::On;
            }
        }
        if let Some(turns) = self.turns.passed_on(self.now()).filter(|_| self.requests.takes_over()) {
            let (held, span) = (Arc::clone(self), tracing::Span::current());
            let released = move || span.in_scope(|| event::released(&held, Some(Release::Released)));
            let (succession, hears) = Succession::of(nonce, turns, released);
            if self.queues.pass_on(self.name(), succession) {
                return Handed::Over(hears);
            }
        }
        Handed::Nowhere
    }

    /// Takes the lock back from a waiter that has not asked for it yet; answers whether.
    pub(crate) fn withdraw(&self) -> bool {
        self.queues.withdraw(self.name(), self.acquisition.nonce)
    }

    /// Nobody releases it any more, and the store is to know that.
    pub(crate) fn let_expire(&self, remaining: Duration) {
        self.requests.let_expire(self.acquisition.claim(), remaining);
    }

    /// The waiters of this process hear that the lease was given back to the store.
    pub(crate) fn wake_next(&self) {
        self.queues.released(self.name(), self.turns.released(self.now()));
    }

    /// Ends the hold on this side: every permit is refused from here on.
    pub(crate) fn end(&self, reason: LossReason) {
        self.change(|state, now| state.end(now, reason));
    }

    fn change(&self, change: impl FnOnce(&mut LeaseState, BootTime) -> LeaseStatus) -> LeaseStatus {
        let mut state = self.lock();
        let (now, deadline) = (self.clock.now(), state.deadline());
        let status = change(&mut state, now);
        // Under the lock, so that of several who notice the loss one reports it.
        let ends_now = matches!(status, LeaseStatus::Lost { .. }) && !self.over.is_cancelled();
        if ends_now {
            self.over.cancel();
        }
        drop(state);
        if let LeaseStatus::Lost { reason } = status
            && ends_now
        {
            self.measured.ended(reason);
        }
        if let LeaseStatus::Lost { reason } = status
            && ends_now
            && reason != LossReason::Released
        {
            if reason != LossReason::Abandoned {
                event::lost(self, reason);
            }
            self.let_expire(deadline.map_or(Duration::ZERO, |deadline| deadline.since(now)));
            self.queues.freed(self.name());
        }
        status
    }

    fn lock(&self) -> MutexGuard<'_, LeaseState> {
        // A panic cannot leave the state half-changed: its transitions do not panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("name", self.name())
            .field("token", &self.token)
            .field("owner", self.nonce())
            .field("state", &self.lock())
            .finish_non_exhaustive()
    }
}

/// Where a lease went that is over.
pub(crate) enum Handed {
    /// The next waiter has it.
    On,
    /// The next waiter takes the lock from it, and tells what came of that.
    Over(oneshot::Receiver<Passed>),
    /// It is to be released.
    Nowhere,
}

/// A store whose type is of no more interest once the lock is held.
pub(crate) trait Requests: Send + Sync {
    fn renew<'a>(&'a self, claim: Claim<'a>) -> BoxFuture<'a, Result<Renewal, StoreError>>;
    fn release<'a>(&'a self, claim: Claim<'a>) -> BoxFuture<'a, Result<Release, StoreError>>;
    fn let_expire(&self, claim: Claim<'_>, remaining: Duration);
    /// As its capabilities say.
    fn takes_over(&self) -> bool;
}

struct Granted<S: LeaseStore> {
    store: Arc<S>,
    token: S::Token,
}

impl<S: LeaseStore> Requests for Granted<S> {
    fn renew<'a>(&'a self, claim: Claim<'a>) -> BoxFuture<'a, Result<Renewal, StoreError>> {
        Box::pin(self.store.renew(claim, self.token))
    }

    fn release<'a>(&'a self, claim: Claim<'a>) -> BoxFuture<'a, Result<Release, StoreError>> {
        Box::pin(self.store.release(claim))
    }

    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        self.store.let_expire(claim, remaining);
    }

    fn takes_over(&self) -> bool {
        S::CAPABILITIES.takes_over
    }
}

//! The attempts of one acquisition, and the waits between them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::{Acquire, Handed};
use crate::capabilities::Order;
use crate::clock::BootTime;
use crate::error::Error;
use crate::event;
use crate::held::{Acquisition, Held, Means};
use crate::kind::{Granted, Kind};
use crate::measure;
use crate::queue::{Baton, Passed, Place, Turns};
use crate::release::release;
use crate::state::{LeaseState, LeaseStatus};
use crate::store::{Grant, Holder, LeaseStore, StoreError};

/// What an attempt gets although the wait is nearly over: one that has no time to be answered would leave things unknown.
pub(super) const SHORTEST_ATTEMPT: Duration = Duration::from_secs(1);

/// How long a failed acquisition waits until the store has taken back what it may have granted.
const WITHDRAWAL: Duration = Duration::from_secs(1);

/// What the first attempt brought.
pub(super) enum First<S: LeaseStore, K: Kind> {
    Granted(Handed<K>),
    Failed(Error),
    /// Somebody else holds it, or is before this one in the process, or there was no answer.
    Waits(Box<Attempts<S>>, Answer<K>),
}

/// What the last attempt brought, for the error that ends the wait.
pub(super) enum Last {
    Nothing,
    Held(Holder),
    Unanswered(Option<StoreError>),
}

pub(super) struct Attempts<S: LeaseStore> {
    pub(super) means: Means<S>,
    pub(super) acquisition: Acquisition,
    pub(super) policy: Acquire,
    pub(super) give_up: Instant,
    /// Among the waiters of this process, where the store has no order of its own.
    pub(super) place: Option<Place>,
    pub(super) waiter: Option<S::Waiter>,
    pub(super) sent: u32,
    pub(super) last: Last,
    /// Of a lock that was released here, or left to this acquisition, unless somebody else was seen to have it since.
    pub(super) turns: Option<Turns>,
    pub(super) measured: measure::Acquiring,
    pub(super) waiting: Option<measure::Waiting>,
}

/// What was granted, and the token that the store has issued for it.
type Acquired<S> = (Arc<Held>, <S as LeaseStore>::Token);

pub(super) type Answer<K> = oneshot::Sender<Result<Handed<K>, Error>>;

impl<S: LeaseStore> Attempts<S> {
    /// One attempt, unless others of this process wait for the lock already.
    pub(super) async fn first<K: Granted<S::Token>>(mut self, answer: Answer<K>) -> First<S, K> {
        self.join::<K>(true);
        if self.place.is_some() {
            return First::Waits(Box::new(self), answer);
        }
        let limit = self.policy.max_wait.max(SHORTEST_ATTEMPT);
        match self.attempt::<K>(limit).await {
            Ok(Some((held, token))) => {
                self.measured.granted();
                First::Granted(Handed::new(held, K::granted(token)))
            }
            // Nobody will go on with it.
            Ok(None) if answer.is_closed() => {
                let error = self.error();
                self.withdraw_shortly().await;
                First::Failed(error)
            }
            Ok(None) => First::Waits(Box::new(self), answer),
            Err(error) => {
                self.measured.failed(&error);
                self.withdraw_shortly().await;
                First::Failed(error)
            }
        }
    }

    pub(super) async fn run<K: Granted<S::Token>>(mut self, mut answer: Answer<K>) {
        self.waiting = self.place.is_some().then(measure::Waiting::begin);
        loop {
            if self.sent > 0 {
                let left = self.give_up.saturating_duration_since(Instant::now());
                let refused = self.policy.fail_fast && matches!(self.last, Last::Held(_));
                if left.is_zero() || refused {
                    let error = self.error();
                    return self.fail(answer, error).await;
                }
                self.waiting.get_or_insert_with(measure::Waiting::begin);
                self.join::<K>(false);
                self.pause(left, &mut answer).await;
            }
            self.wait_for_turn(self.give_up, &mut answer).await;
            self.give_way(&mut answer).await;
            if answer.is_closed() {
                return self.withdraw().await;
            }
            if let Some((kind, baton)) = K::HANDED_ON.zip(self.place.as_ref().and_then(Place::take_baton)) {
                return self.take(baton, kind, answer).await;
            }
            let left = self.give_up.saturating_duration_since(Instant::now());
            match self.attempt::<K>(left.max(SHORTEST_ATTEMPT)).await {
                Ok(Some((held, token))) => return self.hand_over(held, K::granted(token), answer).await,
                Ok(None) => {}
                Err(error) => return self.fail(answer, error).await,
            }
        }
    }

    /// Takes a place among the waiters of this process; `behind_others` only if there are any, and without having asked.
    fn join<K: Granted<S::Token>>(&mut self, behind_others: bool) {
        let queues = S::CAPABILITIES.order == Order::WhoeverAsks && !self.policy.fail_fast;
        if queues && self.place.is_none() {
            let takes_batons = K::HANDED_ON.is_some().then_some(self.acquisition.hold);
            self.place = self.means.queues.join(&self.acquisition.name, takes_batons, behind_others);
        }
    }

    /// One attempt: held, not held (`last` says why), or an error that ends the acquisition. It is the release of whoever has left the
    /// lock to this one, who is told what became of that.
    async fn attempt<K: Granted<S::Token>>(&mut self, limit: Duration) -> Result<Option<Acquired<S>>, Error> {
        let sent = self.means.clock.now();
        self.sent += 1;
        let succession = self.place.as_ref().and_then(Place::take_succession);
        let left = succession.as_ref().map(|succession| succession.turns);
        let left = left.or_else(|| self.place.as_ref().and_then(Place::take_turns));
        self.turns = left.or(self.turns);
        let mut claim = self.acquisition.claim();
        claim.after = succession.as_ref().map(|succession| succession.nonce);
        let attempt = self.means.store.acquire(claim);
        let answer = timeout(self.acquisition.hold.acquire_timeout().min(limit), attempt).await;
        if let Some(succession) = succession {
            succession.tell(match &answer {
                Ok(Ok(Grant::Granted { .. })) => Passed::Taken,
                Ok(Ok(Grant::Held(_))) => Passed::NotOwner,
                Ok(Ok(Grant::BelowFloor { .. }) | Err(_)) | Err(_) => Passed::Unknown,
            });
        }
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(source)) if !source.is_retryable() => {
                return Err(Error::Store { name: self.acquisition.name.clone(), source });
            }
            Ok(Err(source)) => {
                self.last = Last::Unanswered(Some(source));
                return Ok(None);
            }
            Err(_elapsed) => {
                self.last = Last::Unanswered(None);
                return Ok(None);
            }
        };
        self.answered::<K>(answer, sent)
    }

    fn answered<K: Granted<S::Token>>(
        &mut self,
        answer: Grant<S::Token>,
        sent: BootTime,
    ) -> Result<Option<Acquired<S>>, Error> {
        match answer {
            Grant::Granted { token, ttl } => {
                let mut state = LeaseState::granted(self.acquisition.hold, sent, ttl);
                if matches!(state.observe(self.means.clock.now()), LeaseStatus::Lost { .. }) {
                    // The answer took longer than the lease: worth as much as none, and followed up in the same way.
                    self.last = Last::Unanswered(None);
                    return Ok(None);
                }
                let turns = self.turns.unwrap_or(Turns::first(self.means.clock.now()));
                let turns = if K::HANDED_ON.is_some() { turns } else { turns.of_ones_own() };
                let held = Held::granted(self.acquisition.clone(), &self.means, token, state, turns);
                event::acquired(&held);
                Ok(Some((Arc::new(held), token)))
            }
            Grant::Held(holder) => {
                self.turns = None;
                self.last = Last::Held(holder);
                Ok(None)
            }
            Grant::BelowFloor { token } => {
                let floor = self.acquisition.floor.unwrap_or(token);
                Err(Error::TokenBelowFloor { name: self.acquisition.name.clone(), token, floor })
            }
        }
    }

    /// Gives the caller what the store has granted, and the next waiter of this process its turn.
    async fn hand_over<K: Kind>(mut self, held: Arc<Held>, kind: K, answer: Answer<K>) {
        let late = self.place.take().and_then(Place::leave_granted);
        self.measured.granted();
        self.waiting = None;
        // Nobody there, it is given back.
        drop(answer.send(Ok(Handed::new(held, kind))));
        // A lease handed on at the last moment had run out at the store, since that has granted this one.
        if let Some(baton) = late {
            self.give_back(baton).await;
        }
    }

    /// Takes over the lease of another holder of this process.
    async fn take<K: Kind>(mut self, baton: Baton, kind: K, answer: Answer<K>) {
        let _none_left = self.place.take().and_then(Place::leave_granted);
        let held = Arc::new(Held::handed_on(self.acquisition.clone(), &self.means, baton));
        event::acquired(&held);
        self.measured.handed_on();
        self.waiting = None;
        // Nobody there, it is given back.
        drop(answer.send(Ok(Handed::new(held, kind))));
        // Its own claim is of no more use.
        self.withdraw().await;
    }

    fn error(&mut self) -> Error {
        let name = self.acquisition.name.clone();
        match std::mem::replace(&mut self.last, Last::Nothing) {
            Last::Held(holder) => Error::Held { name, holder },
            Last::Unanswered(source) => Error::Unanswered { name, attempts: self.sent, source },
            Last::Nothing => Error::Unanswered { name, attempts: self.sent, source: None },
        }
    }

    async fn fail<K: Kind>(mut self, answer: Answer<K>, error: Error) {
        self.measured.failed(&error);
        self.waiting = None;
        self.withdraw_shortly().await;
        // Nobody waits any more: there is nobody to tell.
        let _gone = answer.send(Err(error));
    }

    /// Gives back first what an unanswered attempt may have got, so that the caller's next step finds nothing left behind. A store that
    /// takes its time for that is not waited for: the caller has waited for long enough.
    async fn withdraw_shortly(mut self) {
        let withdrawal = async move { self.withdraw().await };
        let withdrawal = tokio::spawn(tracing::Instrument::in_current_span(withdrawal));
        let _goes_on = timeout(WITHDRAWAL, withdrawal).await;
    }

    /// Gives up the place in this process's queue and in the store's, and what an unanswered attempt may have been granted.
    async fn withdraw(&mut self) {
        if let Some(baton) = self.place.take().and_then(Place::leave) {
            self.give_back(baton).await;
        }
        if self.sent == 0 {
            return;
        }
        let claim = self.acquisition.claim();
        let release = timeout(self.acquisition.hold.attempt_timeout(), self.means.store.release(claim)).await;
        if !matches!(release, Ok(Ok(_))) {
            self.means.store.let_expire(claim, self.acquisition.hold.ttl());
        }
    }

    async fn give_back(&mut self, baton: Baton) {
        let handed = Held::handed_on(self.acquisition.clone(), &self.means, baton);
        let _released = release(Arc::new(handed), None).await;
    }
}

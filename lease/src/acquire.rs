//! Taking a lock: how long to wait, and what a missing answer means.

use std::sync::Arc;
use std::time::Duration;

use leastlock_core::Backoff;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::clock::Clock;
use crate::error::Error;
use crate::event;
use crate::held::{Acquisition, Held};
use crate::state::{LeaseState, LeaseStatus};
use crate::store::{Grant, Holder, LeaseStore, Pause, StoreError};
use crate::token::FencingToken;

/// What an attempt gets although the wait is nearly over: one that has no time to be answered would leave things unknown.
const SHORTEST_ATTEMPT: Duration = Duration::from_secs(1);

/// How to wait for a lock, and what to acquire it with.
///
/// | limit | default |
/// |---|---|
/// | wait for another holder, and for an answer of the store | 10 s |
/// | pause between attempts | full jitter, from 5 ms to 500 ms, and no longer than the holder's lease |
/// | job id | 200 bytes |
///
/// ```
/// use std::time::Duration;
/// use leastlock_lease::Acquire;
///
/// let patient = Acquire::waiting(Duration::from_secs(60)).job("settlement-2026-09-16");
/// let hasty = Acquire::fail_fast();
/// # let _ = (patient, hasty);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Acquire {
    max_wait: Duration,
    fail_fast: bool,
    backoff: Backoff,
    floor: Option<FencingToken>,
    job: Option<Arc<str>>,
}

impl Acquire {
    /// The default wait.
    pub const DEFAULT_MAX_WAIT: Duration = Duration::from_secs(10);
    /// The longest job id, in bytes; a longer one is cut.
    pub const MAX_JOB_BYTES: usize = 200;

    /// Waits up to `max_wait` for another holder. At least one attempt is made.
    pub fn waiting(max_wait: Duration) -> Self {
        Self { max_wait, fail_fast: false, backoff: Backoff::default(), floor: None, job: None }
    }

    /// Gives up as soon as the store says that somebody else holds the lock. A missing answer is still followed up, for up
    /// to [`DEFAULT_MAX_WAIT`](Self::DEFAULT_MAX_WAIT).
    pub fn fail_fast() -> Self {
        Self { fail_fast: true, ..Self::waiting(Self::DEFAULT_MAX_WAIT) }
    }

    /// The delays between attempts.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The generation that is sealed at the resource: the token will be higher, even if the lock store was restored from an
    /// old copy. [`Fence::generation`](crate::Fence::generation) reads it.
    pub fn floor(mut self, floor: impl Into<Option<FencingToken>>) -> Self {
        self.floor = floor.into();
        self
    }

    /// What the lock is held for. Operators and log lines show it, so it must not be a secret.
    pub fn job(mut self, job: impl Into<String>) -> Self {
        let mut job = job.into();
        job.truncate(job.floor_char_boundary(Self::MAX_JOB_BYTES));
        self.job = Some(job.into());
        self
    }

    pub(crate) fn parts(&self) -> (Option<FencingToken>, Option<Arc<str>>) {
        (self.floor, self.job.clone())
    }
}

impl Default for Acquire {
    fn default() -> Self {
        Self::waiting(Self::DEFAULT_MAX_WAIT)
    }
}

/// Acquires in a task of its own: an attempt is never dropped half-way by the caller, so that a cancelled acquisition gives
/// back what it was granted.
///
/// # Cancel safety
/// Dropped, the task ends its attempt and releases.
pub(crate) async fn acquire<S: LeaseStore>(
    store: Arc<S>,
    clock: Arc<dyn Clock>,
    acquisition: Acquisition,
    policy: Acquire,
) -> Result<(Arc<Held>, S::Token), Error> {
    let name = acquisition.name.clone();
    let (answer, answered) = oneshot::channel();
    let attempts = Attempts { store, clock, acquisition, policy, sent: 0, last: Last::Nothing };
    let task = async move { attempts.run(answer).await };
    tokio::spawn(tracing::Instrument::in_current_span(task));
    // The task ends without an answer only by a panic of the store.
    answered.await.unwrap_or(Err(Error::Unanswered { name, attempts: 0, source: None }))
}

/// What the last attempt brought, for the error that ends the wait.
enum Last {
    Nothing,
    Held(Holder),
    Unanswered(Option<StoreError>),
}

struct Attempts<S: LeaseStore> {
    store: Arc<S>,
    clock: Arc<dyn Clock>,
    acquisition: Acquisition,
    policy: Acquire,
    sent: u32,
    last: Last,
}

type Answer<S> = oneshot::Sender<Result<(Arc<Held>, <S as LeaseStore>::Token), Error>>;

impl<S: LeaseStore> Attempts<S> {
    async fn run(mut self, mut answer: Answer<S>) {
        let give_up = Instant::now() + self.policy.max_wait;
        loop {
            let left = give_up.saturating_duration_since(Instant::now());
            match self.attempt(left.max(SHORTEST_ATTEMPT)).await {
                Ok(Some((held, token))) => {
                    if answer.send(Ok((held, token))).is_err() {
                        self.withdraw().await;
                    }
                    return;
                }
                Ok(None) => {}
                Err(error) => return self.fail(answer, error).await,
            }
            let left = give_up.saturating_duration_since(Instant::now());
            let refused = self.policy.fail_fast && matches!(self.last, Last::Held(_));
            if left.is_zero() || refused {
                let error = self.error();
                return self.fail(answer, error).await;
            }
            let pause = self.pause(left);
            tokio::select! {
                () = self.store.wait(self.acquisition.claim(), pause) => {}
                () = answer.closed() => return self.withdraw().await,
            }
        }
    }

    /// One attempt: held, not held (`last` says why), or an error that ends the acquisition.
    async fn attempt(&mut self, limit: Duration) -> Result<Option<(Arc<Held>, S::Token)>, Error> {
        let name = &self.acquisition.name;
        let sent = self.clock.now();
        self.sent += 1;
        let attempt = self.store.acquire(self.acquisition.claim());
        match timeout(self.acquisition.hold.acquire_timeout().min(limit), attempt).await {
            Ok(Ok(Grant::Granted { token, ttl })) => {
                let mut state = LeaseState::granted(self.acquisition.hold, sent, ttl);
                if matches!(state.observe(self.clock.now()), LeaseStatus::Lost { .. }) {
                    // The answer took longer than the lease: worth as much as none, and followed up in the same way.
                    self.last = Last::Unanswered(None);
                    return Ok(None);
                }
                let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
                let held = Held::new(self.acquisition.clone(), store, token, clock, state);
                event::acquired(&held);
                Ok(Some((Arc::new(held), token)))
            }
            Ok(Ok(Grant::Held(holder))) => {
                self.last = Last::Held(holder);
                Ok(None)
            }
            Ok(Ok(Grant::BelowFloor { token })) => {
                let floor = self.acquisition.floor.unwrap_or(token);
                Err(Error::TokenBelowFloor { name: name.clone(), token, floor })
            }
            Ok(Err(source)) if !source.is_retryable() => Err(Error::Store { name: name.clone(), source }),
            Ok(Err(source)) => {
                self.last = Last::Unanswered(Some(source));
                Ok(None)
            }
            Err(_elapsed) => {
                self.last = Last::Unanswered(None);
                Ok(None)
            }
        }
    }

    fn pause(&self, left: Duration) -> Pause {
        let mut poll = self.policy.backoff.delay(self.sent - 1);
        if let Last::Held(holder) = &self.last {
            poll = poll.min(holder.remaining.max(Duration::from_millis(1)));
        }
        Pause::new(poll, left)
    }

    fn error(&mut self) -> Error {
        let name = self.acquisition.name.clone();
        match std::mem::replace(&mut self.last, Last::Nothing) {
            Last::Held(holder) => Error::Held { name, holder },
            Last::Unanswered(source) => Error::Unanswered { name, attempts: self.sent, source },
            Last::Nothing => Error::Unanswered { name, attempts: self.sent, source: None },
        }
    }

    /// Gives back first what an unanswered attempt may have got, so that the caller's next step finds nothing left behind.
    async fn fail(&self, answer: Answer<S>, error: Error) {
        self.withdraw().await;
        // Nobody waits any more: there is nobody to tell.
        let _gone = answer.send(Err(error));
    }

    /// Gives up the place in the store's queue, and what an unanswered attempt may have been granted.
    async fn withdraw(&self) {
        let release = self.store.release(self.acquisition.claim());
        // Unanswered, the lease ends by its TTL.
        let _outcome = timeout(self.acquisition.hold.attempt_timeout(), release).await;
    }
}

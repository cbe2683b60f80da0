//! Taking a lock: how long to wait, and what a missing answer means.

mod attempts;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use leastlock_core::{Backoff, to_its_end};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::Error;
use crate::held::{Acquisition, Held, Means};
use crate::kind::{Granted, Kind};
use crate::measure;
use crate::release::release;
use crate::state::LossReason;
use crate::store::LeaseStore;
use crate::token::FencingToken;

use attempts::{Attempts, First, Last, SHORTEST_ATTEMPT};

/// As good as for ever, and still a moment of the clock.
const LONGEST_WAIT: Duration = Duration::from_hours(24 * 365 * 30);

/// How to wait for a lock, and what to acquire it with.
///
/// | limit | default |
/// |---|---|
/// | wait for another holder, and for an answer of the store | 10 s |
/// | and beyond it, for the answer to the last attempt | 1 s |
/// | and then, until the store has taken back what it may have granted; that goes on in the background | 1 s |
/// | pause between attempts, where the store must be polled | full jitter, from 5 ms to 500 ms, and no longer than the holder's lease |
/// | pause between attempts, where the store or the process tells of a release | 1 to 2 s, and no longer than the holder's lease |
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

    /// How long something is waited for that does not answer.
    pub(crate) fn longest(&self) -> Duration {
        self.max_wait.clamp(SHORTEST_ATTEMPT, LONGEST_WAIT)
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

/// Acquires: the first attempt where it is awaited, since most locks are free, and the wait for another holder in a task. A place
/// in a queue must not stand still because its owner does not poll. An attempt is never dropped half-way by the caller, so
/// that a cancelled acquisition gives back what it was granted.
///
/// # Cancel safety
/// Dropped, a task ends its attempt and releases.
pub(crate) async fn acquire<S: LeaseStore, K: Granted<S::Token>>(
    means: Means<S>,
    acquisition: Acquisition,
    policy: Acquire,
) -> Result<(Arc<Held>, K), Error> {
    let name = acquisition.name.clone();
    let (answer, answered) = oneshot::channel();
    let give_up = Instant::now() + policy.max_wait.min(LONGEST_WAIT);
    let (measured, waiting) = (measure::Acquiring::begin(), None);
    let (place, waiter, sent, last, turns) = (None, None, 0, Last::Nothing, None);
    let attempts =
        Attempts { means, acquisition, policy, give_up, place, waiter, sent, last, turns, measured, waiting };
    let mut first = std::pin::pin!(to_its_end(tracing::Instrument::in_current_span(attempts.first(answer))));
    // Declared after the attempt, so dropped before it: one that goes on without its caller finds the channel closed.
    let answered = answered;
    let acquired = match first.as_mut().await {
        First::Granted(handed) => Ok(handed),
        First::Failed(error) => Err(error),
        First::Waits(attempts, answer) => {
            let task = async move { attempts.run(answer).await };
            tokio::spawn(tracing::Instrument::in_current_span(task));
            // The task ends without an answer only by a panic of the store.
            answered.await.unwrap_or(Err(Error::Unanswered { name, attempts: 0, source: None }))
        }
    };
    acquired.map(Handed::take)
}

/// What was granted, on its way to the caller. Dropped there, it is given back.
struct Handed<K: Kind> {
    held: Option<Arc<Held>>,
    kind: K,
}

impl<K: Kind> Handed<K> {
    fn new(held: Arc<Held>, kind: K) -> Self {
        Self { held: Some(held), kind }
    }

    fn take(mut self) -> (Arc<Held>, K) {
        (self.held.take().expect("it is taken once, by value"), self.kind)
    }
}

impl<K: Kind> Drop for Handed<K> {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(release(held, None))),
            Err(_none) => held.end(LossReason::Abandoned),
        }
    }
}

//! Futures that are dropped half-way, as when a client hangs up.

use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long the drops that are wanted may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Polls `work` at most `polls` times, and drops it then; what it came to, if it came to its end.
///
/// A test that counts `polls` up from zero until it gets an answer meets every point at which `work` waited then. Where a database
/// is quicker than the next poll, `work` does not wait at all: one count is no proof of anything, see [`Drops`].
pub async fn dropped_after<T>(polls: u32, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut polled) = (pin!(work), 0);
    std::future::poll_fn(|context| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        work.as_mut().poll(context).map(Some)
    })
    .await
}

/// Counts polls up from zero for [`dropped_after`], again and again, until the work was dropped half-way often enough.
///
/// How often a future waits differs from run to run, so a single count may pass over the point that matters.
///
/// ```
/// # use leastlock_testkit::{Drops, dropped_after};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut drops = Drops::at_least(10);
/// while let Some(polls) = drops.next() {
///     let ended = dropped_after(polls, tokio::task::yield_now()).await;
///     drops.ended(ended.is_some());
/// }
/// # });
/// ```
#[derive(Debug)]
pub struct Drops {
    polls: u32,
    wanted: u32,
    until: Instant,
}

impl Drops {
    /// Until the work was dropped half-way this often, and came to its end after the last of them.
    #[must_use]
    pub fn at_least(wanted: u32) -> Self {
        Drops { polls: 0, wanted, until: Instant::now() + PATIENCE }
    }

    /// After how many polls to drop the work now; nothing once it was dropped often enough.
    ///
    /// # Panics
    ///
    /// If that takes longer than a minute.
    #[expect(clippy::should_implement_trait, reason = "each answer is followed by what came of it")]
    pub fn next(&mut self) -> Option<u32> {
        assert!(Instant::now() < self.until, "{} more drops are wanted after {PATIENCE:?}", self.wanted);
        (self.wanted > 0 || self.polls > 0).then_some(self.polls)
    }

    /// Takes note of whether the work came to its end before it was dropped.
    pub fn ended(&mut self, ended: bool) {
        if ended {
            self.polls = 0;
            return;
        }
        self.wanted = self.wanted.saturating_sub(u32::from(self.polls > 0));
        self.polls += 1;
    }
}

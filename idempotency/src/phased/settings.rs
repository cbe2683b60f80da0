//! Settings of the phased mode.

use std::sync::Arc;
use std::time::Duration;

use leastlock_core::Backoff;

use crate::cipher::{Cipher, Sealing};
use crate::setting::{MAX_BYTES, SettingError, check, check_number};

/// The settings of the phased mode, and the operations on its keys.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `lease` | 30 s | how long a claim stands without a renewal; the time after which a dead owner's key goes to the next |
/// | `renewed` | yes | whether a task renews the lease, every third of it, as long as the [`Run`](crate::phased::Run) exists |
/// | `retention` | 24 h | how long an answer is replayed, from its completion |
/// | `retry_after` | 1 s | the most that `InFlight` advises |
/// | `call_limit` | 15 s | how long a claim, a statement or commit of a local step, a listing or a resolution may stay unanswered |
/// | `max_attempts` | 5 | how often an external step is called, or its provider asked, before the key is held; an operator's resolution begins the count anew |
/// | `backoff` | 100 ms to 10 s | the pauses in between, with full jitter |
/// | `max_steps` | 64 | steps of a run |
/// | `max_step_bytes` | 262,144 | the largest log of steps with their results, as JSON |
/// | `max_response_bytes` | 262,144 | the largest answer that is stored |
/// | `cipher` | none | seals answers and the results of steps before they are stored |
#[derive(Debug, Clone)]
pub struct Phased {
    pub(crate) lease: Duration,
    pub(crate) renewed: bool,
    pub(crate) retention: Duration,
    pub(crate) retry_after: Duration,
    pub(crate) call_limit: Duration,
    pub(crate) max_attempts: u32,
    pub(crate) backoff: Backoff,
    pub(crate) max_steps: usize,
    pub(crate) max_step_bytes: usize,
    pub(crate) max_response_bytes: usize,
    pub(crate) sealing: Sealing,
}

impl Default for Phased {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            renewed: true,
            retention: Duration::from_hours(24),
            retry_after: Duration::from_secs(1),
            call_limit: Duration::from_secs(15),
            max_attempts: 5,
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(10)),
            max_steps: 64,
            max_step_bytes: 256 * 1024,
            max_response_bytes: 256 * 1024,
            sealing: Sealing::default(),
        }
    }
}

impl Phased {
    /// Settings other than the defaults.
    ///
    /// ```
    /// use std::time::Duration;
    /// use leastlock_idempotency::phased::Phased;
    ///
    /// let payments = Phased::builder().lease(Duration::from_secs(10)).max_attempts(3).build()?;
    /// # let _ = payments;
    /// assert!(Phased::builder().lease(Duration::ZERO).build().is_err());
    /// # Ok::<(), leastlock_idempotency::SettingError>(())
    /// ```
    pub fn builder() -> PhasedBuilder {
        PhasedBuilder { phased: Self::default() }
    }

    /// How long this client may go on believing in a claim that was confirmed by a statement sent now: the lease, less an
    /// allowance for two clocks that do not run alike.
    pub(crate) fn validity(&self) -> Duration {
        self.lease.saturating_sub(self.lease / 100 + Duration::from_millis(2))
    }

    /// The pause before an attempt that follows `attempts` others; none before the first.
    pub(crate) async fn pause(&self, attempts: u32) {
        if let Some(before) = attempts.checked_sub(1) {
            tokio::time::sleep(self.backoff.delay(before)).await;
        }
    }

    /// How long one statement may take before it counts as unanswered.
    pub(crate) fn statement_limit(&self) -> Duration {
        self.lease / 3
    }
}

/// The most steps that a run may be allowed: its log is written whole with each of them.
const MAX_STEPS: usize = 10_000;

/// Builds [`Phased`]; [`build`](Self::build) checks the limits.
#[derive(Debug, Clone)]
#[must_use = "call `build`"]
pub struct PhasedBuilder {
    phased: Phased,
}

impl PhasedBuilder {
    /// How long a claim stands without a renewal (default: 30 s, at least 100 ms).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.phased.lease = lease;
        self
    }

    /// Whether the lease is renewed as long as the run exists (default: yes). Without, the owner renews by itself, and a run
    /// that hangs loses its key.
    pub fn renewed(mut self, renewed: bool) -> Self {
        self.phased.renewed = renewed;
        self
    }

    /// How long an answer is replayed, from its completion (default: 24 h).
    pub fn retention(mut self, retention: Duration) -> Self {
        self.phased.retention = retention;
        self
    }

    /// The most that `InFlight` advises (default: 1 s).
    pub fn retry_after(mut self, retry_after: Duration) -> Self {
        self.phased.retry_after = retry_after;
        self
    }

    /// How long a call of the database may stay unanswered before it is given up as [`Error::NoAnswer`](crate::Error::NoAnswer)
    /// (default: 15 s): a claim, the library's statements in a local step and its commit, a listing, a resolution. More than
    /// the waits that the engine bounds by itself: SQLite's `busy_timeout`, and one second for a lock. What keeps a lease is
    /// bounded by that.
    ///
    /// On PostgreSQL and MariaDB the connection of a call that was given up is closed, so that its place in the pool is free at
    /// once. Your own statements in a local step are yours to bound; a connection that is silent in one of them keeps its place until
    /// TCP gives it up.
    pub fn call_limit(mut self, call_limit: Duration) -> Self {
        self.phased.call_limit = call_limit;
        self
    }

    /// How often an external step is called, or its provider asked, before the key is held (default: 5; 0 counts as 1).
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.phased.max_attempts = max_attempts.max(1);
        self
    }

    /// The pauses between these (default: from 100 ms to 10 s, with full jitter).
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.phased.backoff = backoff;
        self
    }

    /// How many steps a run may have (default: 64).
    pub fn max_steps(mut self, max_steps: usize) -> Self {
        self.phased.max_steps = max_steps;
        self
    }

    /// The largest log of steps with their results, in bytes of JSON (default: 262,144).
    pub fn max_step_bytes(mut self, max_step_bytes: usize) -> Self {
        self.phased.max_step_bytes = max_step_bytes;
        self
    }

    /// The largest answer that is stored, in bytes (default: 262,144).
    pub fn max_response_bytes(mut self, max_response_bytes: usize) -> Self {
        self.phased.max_response_bytes = max_response_bytes;
        self
    }

    /// Seals answers, and the steps with their results, before they are stored (default: none). As
    /// [`KeysBuilder::cipher`](crate::KeysBuilder::cipher): take the same one where both modes meet in a scope.
    pub fn cipher(mut self, cipher: Arc<dyn Cipher>) -> Self {
        self.phased.sealing = Sealing::with(cipher);
        self
    }

    /// The phased mode, if every limit makes sense.
    ///
    /// # Errors
    /// [`SettingError`] names the setting that is below its least value or beyond its bound.
    pub fn build(self) -> Result<Phased, SettingError> {
        let day = Duration::from_hours(24);
        for (setting, value, least, most) in [
            ("lease", self.phased.lease, Duration::from_millis(100), day),
            ("retention", self.phased.retention, Duration::from_millis(1), 3660 * day),
            ("retry_after", self.phased.retry_after, Duration::from_millis(1), day),
            ("call_limit", self.phased.call_limit, Duration::from_millis(100), day),
        ] {
            check(setting, value, least, most)?;
        }
        check_number("max_steps", self.phased.max_steps, 1, MAX_STEPS)?;
        check_number("max_step_bytes", self.phased.max_step_bytes, 1, MAX_BYTES)?;
        check_number("max_response_bytes", self.phased.max_response_bytes, 1, MAX_BYTES)?;
        self.phased.sealing.check()?;
        Ok(self.phased)
    }
}

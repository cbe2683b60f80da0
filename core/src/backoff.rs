//! Capped exponential delays with full jitter.

use std::time::Duration;

/// Delays between attempts: `random(0, min(cap, initial × 2^attempt))`.
///
/// Full jitter spreads colliding clients over the whole interval and so needs the fewest attempts in all (Marc Brooker,
/// "Exponential Backoff and Jitter", AWS Architecture Blog, 2015).
///
/// ```
/// use std::time::Duration;
/// use leastlock_core::Backoff;
///
/// let backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(500));
/// assert!(backoff.ceiling(0) == Duration::from_millis(10));
/// assert!(backoff.ceiling(40) == Duration::from_millis(500));
/// assert!(backoff.delay(3) <= Duration::from_millis(80));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    initial: Duration,
    cap: Duration,
}

impl Backoff {
    /// Delays that start below `initial` and never exceed `cap`.
    #[must_use]
    pub const fn new(initial: Duration, cap: Duration) -> Self {
        Self { initial, cap }
    }

    /// The longest delay that attempt number `attempt` (from 0) may wait.
    #[must_use]
    pub fn ceiling(&self, attempt: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
        self.initial.saturating_mul(factor).min(self.cap)
    }

    /// A random delay for attempt number `attempt` (from 0).
    #[must_use]
    pub fn delay(&self, attempt: u32) -> Duration {
        self.ceiling(attempt).mul_f64(fastrand::f64())
    }
}

impl Default for Backoff {
    /// From 5 ms to 500 ms.
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_millis(500))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_never_exceeds_its_ceiling() {
        let backoff = Backoff::default();
        for attempt in 0..200 {
            assert!(backoff.delay(attempt) <= backoff.ceiling(attempt));
        }
    }

    #[test]
    fn ceiling_grows_to_the_cap_and_stays() {
        let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(8));
        let ceilings: Vec<_> = [0, 1, 2, 3, 4, 31, 32, u32::MAX].map(|n| backoff.ceiling(n).as_millis()).into();
        assert_eq!(ceilings, [1, 2, 4, 8, 8, 8, 8, 8]);
    }
}

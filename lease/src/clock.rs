//! The client's clock, which only bounds what the client may still believe.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment, as the time since this machine was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(Duration);

impl BootTime {
    /// The moment this long after the start.
    #[must_use]
    pub const fn after_boot(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// What the client measures its own deadlines with.
///
/// # Contract
/// - It never goes back, and is not stepped when the wall clock is set.
/// - It goes on while the machine is suspended. A clock that stands still meanwhile would let a holder wake up hours later
///   and believe that it still holds.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The moment that it is.
    fn now(&self) -> BootTime;
}

/// `CLOCK_BOOTTIME` of Linux. Elsewhere `CLOCK_MONOTONIC`, which goes on during a suspension on macOS.
///
/// ```
/// use leastlock_lease::{BootClock, Clock};
///
/// let earlier = BootClock.now();
/// assert!(BootClock.now() >= earlier);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> BootTime {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let time = clock_gettime(ClockId::Boottime);
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let time = clock_gettime(ClockId::Monotonic);
        // Neither is negative: both count from the start of the machine.
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
        BootTime(Duration::new(seconds, nanoseconds))
    }
}

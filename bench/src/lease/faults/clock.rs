//! A clock that stands still while it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leastlock_lease::{BootClock, BootTime, Clock};

/// The boot clock, but for the time in which it stands still, as that of a suspended guest does: what the contract of [`Clock`]
/// forbids. Whoever goes by it believes in a lease that ran out meanwhile, and only the resource can tell.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing(Arc<AtomicU64>);

/// It goes.
const GOES: u64 = 0;

impl Standing {
    pub(super) fn stand(&self) {
        self.0.store(nanoseconds(since_boot()).max(GOES + 1), Ordering::SeqCst);
    }

    pub(super) fn go(&self) {
        self.0.store(GOES, Ordering::SeqCst);
    }
}

impl Clock for Standing {
    fn now(&self) -> BootTime {
        match self.0.load(Ordering::SeqCst) {
            GOES => BootClock.now(),
            stands_at => BootTime::after_boot(Duration::from_nanos(stands_at)),
        }
    }
}

/// The same for all processes of the machine.
pub(super) fn since_boot() -> Duration {
    BootClock.now().since(BootTime::after_boot(Duration::ZERO))
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_still_until_it_goes_on_and_has_missed_nothing() {
        let clock = Standing::default();
        clock.stand();
        let stands_at = clock.now();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(clock.now(), stands_at);
        let really = BootClock.now();
        clock.go();
        assert!(clock.now() >= really && really > stands_at);
    }
}

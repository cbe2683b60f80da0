//! A clock that goes when it is told to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leastlock_lease::{BootTime, Clock};

/// Stands still, as the time of a paused process seems to, until it jumps.
#[derive(Debug, Clone)]
pub(crate) struct ManualClock(Arc<Mutex<BootTime>>);

impl ManualClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(BootTime::after_boot(Duration::from_secs(1000)))))
    }

    pub(crate) fn jump(&self, by: Duration) {
        let mut now = self.0.lock().unwrap();
        *now = *now + by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> BootTime {
        *self.0.lock().unwrap()
    }
}

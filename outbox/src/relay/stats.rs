//! What a relay has done so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Live figures of a relay; clones see the same figures.
#[derive(Debug, Clone, Default)]
pub struct Stats(Arc<Figures>);

#[derive(Debug, Default)]
struct Figures {
    published: AtomicU64,
    lag_sum_ms: AtomicU64,
    lag_max_ms: AtomicU64,
}

impl Stats {
    /// Events acknowledged by the sink and noted as published.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.0.published.load(Relaxed)
    }

    /// The mean time from an event's append to its acknowledgement.
    #[must_use]
    pub fn mean_lag(&self) -> Duration {
        let mean = self.0.lag_sum_ms.load(Relaxed).checked_div(self.published());
        Duration::from_millis(mean.unwrap_or(0))
    }

    /// The longest time from an event's append to its acknowledgement.
    #[must_use]
    pub fn max_lag(&self) -> Duration {
        Duration::from_millis(self.0.lag_max_ms.load(Relaxed))
    }

    pub(crate) fn count(&self, age_at_read_ms: i64, since_read: Duration) {
        let since_read = u64::try_from(since_read.as_millis()).unwrap_or(u64::MAX);
        // An age below zero is a database clock that was stepped back.
        let lag = u64::try_from(age_at_read_ms).unwrap_or(0).saturating_add(since_read);
        self.0.published.fetch_add(1, Relaxed);
        self.0.lag_sum_ms.fetch_add(lag, Relaxed);
        self.0.lag_max_ms.fetch_max(lag, Relaxed);
    }
}

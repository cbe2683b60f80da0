//! What a relay has done so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::relay::pipeline::Progress;

/// Live figures of a relay; clones see the same figures.
#[derive(Debug, Clone, Default)]
pub struct Stats(Arc<Figures>);

#[derive(Debug, Default)]
struct Figures {
    published: AtomicU64,
    acknowledged: AtomicU64,
    lag_sum_ms: AtomicU64,
    lag_max_ms: AtomicU64,
    parked: AtomicU64,
    overtaking: AtomicU64,
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
        let mean = self.0.lag_sum_ms.load(Relaxed).checked_div(self.0.acknowledged.load(Relaxed));
        Duration::from_millis(mean.unwrap_or(0))
    }

    /// The longest time from an event's append to its acknowledgement.
    #[must_use]
    pub fn max_lag(&self) -> Duration {
        Duration::from_millis(self.0.lag_max_ms.load(Relaxed))
    }

    /// Events parked: the ones that the sink refused for good, and the ones behind them. One that is tried again and refused again
    /// counts once. How much is parked now, [`Parked::count`](crate::Parked::count) says.
    #[must_use]
    pub fn parked(&self) -> u64 {
        self.0.parked.load(Relaxed)
    }

    /// Events that were acknowledged before an earlier one of their key, because that one was refused among others in flight. None, where
    /// the sink knows beforehand what it will refuse.
    #[must_use]
    pub fn overtaking(&self) -> u64 {
        self.0.overtaking.load(Relaxed)
    }

    /// What was noted as parked.
    pub(crate) fn count_parked(&self, events: u64) {
        self.0.parked.fetch_add(events, Relaxed);
    }

    /// What the sink acknowledged.
    pub(crate) fn acknowledged(&self, progress: Progress) {
        self.0.acknowledged.fetch_add(progress.events, Relaxed);
        self.0.overtaking.fetch_add(progress.overtaking, Relaxed);
        self.0.lag_sum_ms.fetch_add(progress.lag_sum_ms, Relaxed);
        self.0.lag_max_ms.fetch_max(progress.lag_max_ms, Relaxed);
    }

    /// What was noted as published.
    pub(crate) fn noted(&self, events: u64) {
        self.0.published.fetch_add(events, Relaxed);
    }
}

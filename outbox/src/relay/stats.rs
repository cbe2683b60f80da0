//! What a relay has done so far.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::relay::pipeline::Progress;

/// What a rate is taken over.
const RATE_WINDOW: Duration = Duration::from_secs(10);
/// The least time between two samples for it: a hundred of them at most.
const RATE_SAMPLE: Duration = Duration::from_millis(100);

/// Live figures of a relay; clones see the same figures. How far all relays are behind is [`Lag`](crate::Lag)'s to say.
#[derive(Clone, Default)]
pub struct Stats(Arc<Figures>);

#[derive(Debug, Default)]
struct Figures {
    published: AtomicU64,
    acknowledged: AtomicU64,
    deleted: AtomicU64,
    held: AtomicU64,
    handed_over: AtomicU64,
    lag_sum_ms: AtomicU64,
    lag_max_ms: AtomicU64,
    parked: AtomicU64,
    overtaking: AtomicU64,
    samples: Mutex<VecDeque<(Instant, u64)>>,
}

impl fmt::Debug for Stats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Stats")
            .field("published", &self.published())
            .field("published_per_second", &self.published_per_second())
            .field("mean_lag", &self.mean_lag())
            .field("max_lag", &self.max_lag())
            .field("parked", &self.parked())
            .field("overtaking", &self.overtaking())
            .field("deleted", &self.deleted())
            .field("shards", &self.shards())
            .field("handed_over", &self.handed_over())
            .finish()
    }
}

impl Stats {
    /// Events acknowledged by the sink and noted as published.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.0.published.load(Relaxed)
    }

    /// Events noted as published a second, over the last ten seconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a rate needs no more than a float has")]
    pub fn published_per_second(&self) -> f64 {
        let mut samples = self.0.samples.lock().unwrap_or_else(PoisonError::into_inner);
        forget_old(&mut samples, Instant::now());
        let Some((since, before)) = samples.front() else { return 0.0 };
        let seconds = since.elapsed().as_secs_f64();
        if seconds > 0.0 { (self.published() - before) as f64 / seconds } else { 0.0 }
    }

    /// Shards that the relay holds now.
    #[must_use]
    pub fn shards(&self) -> u64 {
        self.0.held.load(Relaxed)
    }

    /// Shards that the relay has handed over to another one.
    #[must_use]
    pub fn handed_over(&self) -> u64 {
        self.0.handed_over.load(Relaxed)
    }

    /// Events deleted from the log because their retention was over.
    #[must_use]
    pub fn deleted(&self) -> u64 {
        self.0.deleted.load(Relaxed)
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
        #[cfg(feature = "metrics")]
        crate::metrics::acknowledged(Duration::from_millis(progress.lag_max_ms));
    }

    /// What was noted as published.
    pub(crate) fn noted(&self, events: u64) {
        let before = self.0.published.fetch_add(events, Relaxed);
        let mut samples = self.0.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        forget_old(&mut samples, now);
        if samples.back().is_none_or(|(last, _)| now - *last >= RATE_SAMPLE) {
            samples.push_back((now, before));
        }
        #[cfg(feature = "metrics")]
        crate::metrics::published(events);
    }

    pub(crate) fn count_deleted(&self, events: u64) {
        self.0.deleted.fetch_add(events, Relaxed);
        #[cfg(feature = "metrics")]
        crate::metrics::deleted(events);
    }

    /// How many shards the relay holds, and how many of those that it held it has just handed over.
    pub(crate) fn hold(&self, shards: usize, handed_over: usize) {
        self.0.held.store(shards as u64, Relaxed);
        self.0.handed_over.fetch_add(handed_over as u64, Relaxed);
        #[cfg(feature = "metrics")]
        crate::metrics::shards(shards, handed_over);
    }
}

fn forget_old(samples: &mut VecDeque<(Instant, u64)>, now: Instant) {
    while samples.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > RATE_WINDOW) {
        samples.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_it_says_what_the_calls_say() {
        let stats = Stats::default();
        stats.noted(50);
        stats.count_parked(3);
        let printed = format!("{stats:?}");
        assert!(printed.starts_with("Stats { published: 50, ") && printed.contains("mean_lag: 0ns"), "{printed}");
        assert!(printed.contains("parked: 3") && !printed.contains("samples"), "{printed}");
    }

    #[test]
    fn rate_counts_what_was_published_in_the_window() {
        let stats = Stats::default();
        assert!(stats.published_per_second() == 0.0);
        stats.noted(50);
        std::thread::sleep(Duration::from_millis(20));
        stats.noted(50);
        let rate = stats.published_per_second();
        assert!(rate > 0.0 && rate <= 100.0 / 0.02, "{rate}");
        assert_eq!(stats.published(), 100);
    }
}

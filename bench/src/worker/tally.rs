//! What a contender has done by when, counted inside its process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::task::Measured;
use crate::cpu::own_seconds;

/// Steps of the histogram in each doubling: values are told apart to 6 %.
const STEPS: u64 = 16;
const BUCKETS: usize = 64 * 16;

/// Counts records from the first that comes until so many are done.
#[derive(Debug)]
pub(super) struct Tally {
    records: u64,
    began: OnceLock<Start>,
    done: AtomicU64,
    last: OnceLock<Instant>,
    whole: Notify,
    latencies: Histogram,
}

#[derive(Debug)]
struct Start {
    at: Instant,
    cpu: f64,
}

impl Tally {
    pub(super) fn of(records: u64) -> Self {
        Self {
            records,
            began: OnceLock::new(),
            done: AtomicU64::new(0),
            last: OnceLock::new(),
            whole: Notify::new(),
            latencies: Histogram::new(),
        }
    }

    /// A record has come. The first one begins the measurement.
    pub(super) fn came(&self) -> Instant {
        self.began.get_or_init(|| Start { at: Instant::now(), cpu: own_seconds() }).at
    }

    /// A record is done with, that was polled then.
    pub(super) fn done(&self, polled: Option<Instant>) {
        if let Some(polled) = polled {
            self.latencies.count(u64::try_from(polled.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        self.done_many(1);
    }

    /// So many records are done with.
    pub(super) fn done_many(&self, records: u64) {
        let before = self.done.fetch_add(records, Relaxed);
        if before < self.records && before + records >= self.records {
            let _ = self.last.set(Instant::now());
            self.whole.notify_one();
        }
    }

    /// How many are done.
    pub(super) fn count(&self) -> u64 {
        self.done.load(Relaxed)
    }

    /// Since the first record came.
    pub(super) fn age(&self) -> Option<Duration> {
        self.began.get().map(|start| start.at.elapsed())
    }

    /// Waits until all are done, or so long from the first one on.
    pub(super) async fn measured(&self, time: Duration) -> anyhow::Result<Measured> {
        while self.age().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let left = time.saturating_sub(self.age().unwrap_or_default());
        // What is not whole by then is measured as it stands.
        let _ = tokio::time::timeout(left, self.whole.notified()).await;
        self.measured_now()
    }

    #[expect(clippy::cast_precision_loss, reason = "microseconds of a run are far below 2^53")]
    pub(super) fn measured_now(&self) -> anyhow::Result<Measured> {
        let cpu = own_seconds();
        let records = self.count().min(self.records);
        let ended = self.last.get().copied().unwrap_or_else(Instant::now);
        let start = self.began.get().ok_or_else(|| anyhow::anyhow!("no record came"))?;
        let percentile = |mille| self.latencies.per_mille(mille).map(|us| us as f64);
        Ok(Measured {
            records,
            seconds: ended.duration_since(start.at).as_secs_f64(),
            cpu_seconds: cpu - start.cpu,
            peak_mib: peak_mib().unwrap_or(f64::NAN),
            p50_us: percentile(500),
            p99_us: percentile(990),
            before: None,
            during: None,
        })
    }
}

/// The most memory that this process has had resident, as Linux tells it (proc(5), `/proc/pid/status`).
fn peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? / 1024.0)
}

/// Counts of values, in buckets that grow with the value.
#[derive(Debug)]
struct Histogram {
    buckets: Vec<AtomicU64>,
}

impl Histogram {
    fn new() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }

    fn count(&self, value: u64) {
        if let Some(bucket) = self.buckets.get(bucket_of(value)) {
            bucket.fetch_add(1, Relaxed);
        }
    }

    /// The smallest bucket that so many thousandths of the values do not exceed: its lower end.
    fn per_mille(&self, mille: u64) -> Option<u64> {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let rank = (counts.iter().sum::<u64>() * mille).div_ceil(1000).max(1);
        let mut sum = 0;
        let bucket = counts.iter().position(|count| {
            sum += count;
            sum >= rank
        })?;
        Some(floor_of(bucket as u64))
    }
}

fn bucket_of(value: u64) -> usize {
    let bucket = match value.checked_ilog2() {
        Some(doublings @ 4..) => {
            let step = (value >> (doublings - 4)) - STEPS;
            u64::from(doublings - 3) * STEPS + step
        }
        _ => value,
    };
    usize::try_from(bucket).unwrap_or(BUCKETS)
}

fn floor_of(bucket: u64) -> u64 {
    match bucket / STEPS {
        0 => bucket,
        doublings => (STEPS + bucket % STEPS) << (doublings - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_values_that_differ_by_less_than_a_sixteenth() {
        let mut last = 0;
        for value in (0..5000).chain([1 << 20, (1 << 40) + 12345, u64::MAX]) {
            let bucket = bucket_of(value);
            assert!(bucket >= last && bucket < BUCKETS, "{value}");
            last = bucket;
            let floor = floor_of(bucket as u64);
            assert!(floor <= value && value - floor <= value / 16, "{value} is in the bucket from {floor}");
        }
    }

    #[test]
    fn a_percentile_is_the_nearest_rank() {
        let histogram = Histogram::new();
        assert_eq!(histogram.per_mille(500), None);
        (1..=10).for_each(|value| histogram.count(value));
        assert_eq!([500, 990, 1].map(|mille| histogram.per_mille(mille)), [Some(5), Some(10), Some(1)]);
    }

    #[tokio::test]
    async fn a_measurement_ends_with_the_last_record_and_not_with_what_comes_after_it() {
        let tally = Tally::of(3);
        assert!(tally.measured_now().is_err());
        tally.came();
        tally.done(Some(Instant::now()));
        tally.done_many(2);
        let seconds = tally.measured(Duration::from_mins(1)).await.unwrap().seconds;
        tally.done(None);
        let measured = tally.measured_now().unwrap();
        assert_eq!((measured.records, measured.seconds.to_bits()), (3, seconds.to_bits()));
        assert!(measured.peak_mib > 0.0 && measured.p50_us.is_some());
    }
}

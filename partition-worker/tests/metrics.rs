//! What a worker reports to the recorder of the application, and what its probe says.
#![cfg(all(feature = "kafka", feature = "metrics"))]

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leastlock_partition_worker::health::Stage;
use leastlock_partition_worker::metrics::{self, describe};
use leastlock_partition_worker::{Failure, Record, TopicPartition};
use leastlock_testkit::broker::Broker;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio_util::sync::CancellationToken;

use crate::rig::{LIMIT, Log, Rig};

#[allow(dead_code, reason = "this file needs a part of it")]
#[path = "at_least_once/rig.rs"]
mod rig;

/// By name and labels, the sum of a counter or of a histogram's samples, or a gauge's last value.
#[derive(Default)]
struct Seen {
    values: BTreeMap<(String, Vec<(String, String)>), f64>,
    without_unit: Vec<String>,
}

impl Seen {
    /// A snapshot takes the counters away, so they are kept.
    fn look(&mut self, snapshotter: &Snapshotter) {
        for (key, unit, _, value) in snapshotter.snapshot().into_vec() {
            let name = key.key().name().to_owned();
            let labels = key.key().labels().map(|label| (label.key().to_owned(), label.value().to_owned())).collect();
            if unit.is_none() {
                self.without_unit.push(name.clone());
            }
            let slot = self.values.entry((name, labels)).or_default();
            #[allow(clippy::cast_precision_loss, reason = "they are small")]
            match value {
                DebugValue::Counter(count) => *slot += count as f64,
                DebugValue::Gauge(gauge) => *slot = gauge.0,
                DebugValue::Histogram(samples) => *slot += samples.len() as f64,
            }
        }
    }

    fn of(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.values.get(&(name.to_owned(), labels)).copied()
    }

    fn is(&self, name: &str, labels: &[(&str, &str)], expected: f64) -> bool {
        self.of(name, labels).is_some_and(|value| (value - expected).abs() < f64::EPSILON)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_reports_what_it_did_and_how_far_it_is_behind() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().expect("the only recorder of the process");
    describe();
    let mut rig = Rig::new(Broker::mock(), 1).await;
    rig.settings.push(("statistics.interval.ms", "100".to_owned()));
    // The first of ten records fails until it may succeed.
    rig.produce(&["85123A"], 1..=1).await;
    rig.produce(&["71053"], 1..=9).await;
    let (log, may_end) = (Log::default(), CancellationToken::new());
    let ends = may_end.clone();
    let stuck = move |record: &Record| -> BoxFuture<'static, Result<(), Failure>> {
        let result = if record.offset() > 0 || ends.is_cancelled() { Ok(()) } else { Err(Failure::retry("not yet")) };
        Box::pin(async { result })
    };
    let worker = rig.builder().max_attempts(u32::MAX).build().expect("a worker");
    let (probe, shutdown) = (worker.probe(), CancellationToken::new());
    assert_eq!((probe.health().stage, probe.lag().len()), (Stage::Built, 0));
    let running = tokio::spawn(worker.run(log.first(stuck), shutdown.clone()));
    log.until(9).await;
    let partition = TopicPartition::new(rig.topic.as_str(), 0);
    let is_known = async || probe.lag().get(&partition).is_some_and(|lag| lag.lag.is_some());
    leastlock_testkit::until("the end of the log is known", LIMIT, is_known).await;
    let lag = probe.lag()[&partition];
    assert_eq!((lag.watermark, lag.end_offset, lag.lag, lag.gap), (0, Some(10), Some(10), 10), "{lag:?}");
    assert_eq!((lag.unfinished, lag.runs_ahead), (1, 1), "{lag:?}");

    let mut seen = Seen::default();
    let labels = [("topic", rig.topic.as_str()), ("partition", "0")];
    while !seen.is(metrics::PARTITION_WORKER_LAG_OFFSETS, &labels, 10.0) {
        seen.look(&snapshotter);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(seen.is(metrics::PARTITION_WORKER_WATERMARK_GAP_OFFSETS, &labels, 10.0));
    assert!(seen.is(metrics::PARTITION_WORKER_PARTITIONS, &[], 1.0));
    may_end.cancel();
    log.until(10).await;
    while !seen.is(metrics::PARTITION_WORKER_LAG_OFFSETS, &labels, 0.0) {
        seen.look(&snapshotter);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    shutdown.cancel();
    running.await.expect("no panic").expect("no error");
    assert_eq!((probe.health().stage, probe.lag().len()), (Stage::Ended, 0));
    seen.look(&snapshotter);

    assert!(seen.is(metrics::PARTITION_WORKER_RECORDS_TOTAL, &[("outcome", "processed")], 10.0));
    assert!(seen.is(metrics::PARTITION_WORKER_ATTEMPTS_TOTAL, &[("ended", "done")], 10.0));
    let failed = seen.of(metrics::PARTITION_WORKER_ATTEMPTS_TOTAL, &[("ended", "failed")]).expect("some failed");
    let timed = seen.of(metrics::PARTITION_WORKER_ATTEMPT_SECONDS, &[]).expect("each is timed");
    assert!(failed >= 1.0 && (timed - failed - 10.0).abs() < f64::EPSILON, "{failed} failed, {timed} timed");
    assert!(seen.is(metrics::PARTITION_WORKER_REBALANCED_TOTAL, &[("event", "assigned")], 1.0));
    for name in [
        metrics::PARTITION_WORKER_HANDLERS_RUNNING,
        metrics::PARTITION_WORKER_HANDLERS_STALLED,
        metrics::PARTITION_WORKER_OLDEST_HANDLER_SECONDS,
    ] {
        assert!(seen.of(name, &[]).is_some(), "{name} is not reported");
    }
    assert!(seen.without_unit.is_empty(), "{:?}", seen.without_unit);
    let known = ["outcome", "ended", "event", "topic", "partition"];
    let labels = seen.values.keys().flat_map(|(_, labels)| labels).map(|(name, _)| name.as_str());
    assert_eq!(labels.filter(|label| !known.contains(label)).count(), 0, "nothing of a record is in a label");
}

//! Recording what is measured.

use std::collections::BTreeMap;
use std::time::Duration;

use ::metrics::{counter, gauge, histogram};

use super::{
    PARTITION_WORKER_ATTEMPT_SECONDS, PARTITION_WORKER_ATTEMPTS_TOTAL, PARTITION_WORKER_COMMITS_FAILED_TOTAL,
    PARTITION_WORKER_DRAIN_SECONDS, PARTITION_WORKER_HANDLERS_RUNNING, PARTITION_WORKER_HANDLERS_STALLED,
    PARTITION_WORKER_LAG_OFFSETS, PARTITION_WORKER_OLDEST_HANDLER_SECONDS, PARTITION_WORKER_PARTITIONS,
    PARTITION_WORKER_REBALANCED_TOTAL, PARTITION_WORKER_RECORDS_TOTAL, PARTITION_WORKER_STALLS_TOTAL,
    PARTITION_WORKER_WATERMARK_GAP_OFFSETS,
};
use crate::health::Health;
use crate::lag::PartitionLag;
use crate::partition::TopicPartition;

pub(crate) fn records(outcome: &'static str) {
    counter!(PARTITION_WORKER_RECORDS_TOTAL, "outcome" => outcome).increment(1);
}

pub(crate) fn attempt(ended: &'static str, took: Duration) {
    counter!(PARTITION_WORKER_ATTEMPTS_TOTAL, "ended" => ended).increment(1);
    histogram!(PARTITION_WORKER_ATTEMPT_SECONDS).record(took);
}

pub(crate) fn stalls(handlers: usize) {
    counter!(PARTITION_WORKER_STALLS_TOTAL).increment(handlers as u64);
}

pub(crate) fn rebalanced(event: &'static str, partitions: usize) {
    counter!(PARTITION_WORKER_REBALANCED_TOTAL, "event" => event).increment(partitions as u64);
}

pub(crate) fn drained(after: Duration) {
    histogram!(PARTITION_WORKER_DRAIN_SECONDS).record(after);
}

pub(crate) fn commit_failed() {
    counter!(PARTITION_WORKER_COMMITS_FAILED_TOTAL).increment(1);
}

#[allow(clippy::cast_precision_loss, reason = "a gauge needs no more than a float has")]
pub(crate) fn health(health: &Health) {
    gauge!(PARTITION_WORKER_HANDLERS_RUNNING).set(health.running as f64);
    gauge!(PARTITION_WORKER_HANDLERS_STALLED).set(health.stalled as f64);
    let oldest = health.oldest.as_ref().map_or(Duration::ZERO, |oldest| oldest.running_for);
    gauge!(PARTITION_WORKER_OLDEST_HANDLER_SECONDS).set(oldest.as_secs_f64());
    gauge!(PARTITION_WORKER_PARTITIONS).set(health.partitions.len() as f64);
}

/// Writes the lags, and a zero for each partition that had one before and is another's by now.
#[allow(clippy::cast_precision_loss, reason = "a gauge needs no more than a float has")]
pub(crate) fn lags(before: &mut BTreeMap<TopicPartition, PartitionLag>, now: BTreeMap<TopicPartition, PartitionLag>) {
    for partition in before.keys().filter(|partition| !now.contains_key(*partition)) {
        lag(partition, Some(0.0), 0.0);
    }
    for (partition, of) in &now {
        lag(partition, of.lag.map(|lag| lag as f64), of.gap as f64);
    }
    *before = now;
}

fn lag(partition: &TopicPartition, lag: Option<f64>, gap: f64) {
    let labels = [("topic", partition.topic().to_owned()), ("partition", partition.partition().to_string())];
    if let Some(lag) = lag {
        gauge!(PARTITION_WORKER_LAG_OFFSETS, &labels).set(lag);
    }
    gauge!(PARTITION_WORKER_WATERMARK_GAP_OFFSETS, &labels).set(gap);
}

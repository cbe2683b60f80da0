//! What workers measure (feature `metrics`): the names, with their units.
//!
//! Figures go to whatever recorder the application has installed for the crate `metrics`; without one they go nowhere. Install
//! it before the first worker runs, and call [`describe`] once after that, for the exporters that show what a metric means.
//!
//! Labels have a fixed set of values each, named below, except `topic` and `partition` of the last two. No key, payload, group,
//! offset or owner is ever in one. Counters and histograms take all workers of a process together; a gauge without labels is what the
//! worker that wrote it last says, so where a process has several read their `Probe`s instead.
//!
//! | metric | kind | unit | labels |
//! |---|---|---|---|
//! | [`PARTITION_WORKER_RECORDS_TOTAL`] | counter | records | `outcome` |
//! | [`PARTITION_WORKER_ATTEMPTS_TOTAL`] | counter | attempts | `ended` |
//! | [`PARTITION_WORKER_ATTEMPT_SECONDS`] | histogram | seconds | |
//! | [`PARTITION_WORKER_HANDLERS_RUNNING`] | gauge | handlers | |
//! | [`PARTITION_WORKER_HANDLERS_STALLED`] | gauge | handlers | |
//! | [`PARTITION_WORKER_OLDEST_HANDLER_SECONDS`] | gauge | seconds | |
//! | [`PARTITION_WORKER_STALLS_TOTAL`] | counter | handlers | |
//! | [`PARTITION_WORKER_PARTITIONS`] | gauge | partitions | |
//! | [`PARTITION_WORKER_REBALANCED_TOTAL`] | counter | partitions | `event` |
//! | [`PARTITION_WORKER_DRAIN_SECONDS`] | histogram | seconds | |
//! | [`PARTITION_WORKER_COMMITS_FAILED_TOTAL`] | counter | commits | |
//! | [`PARTITION_WORKER_LAG_OFFSETS`] | gauge | offsets | `topic`, `partition` |
//! | [`PARTITION_WORKER_WATERMARK_GAP_OFFSETS`] | gauge | offsets | `topic`, `partition` |
//!
//! Gauges are written each second. A [`PARTITION_WORKER_LAG_OFFSETS`] that rises is the one to be woken by; if
//! [`PARTITION_WORKER_WATERMARK_GAP_OFFSETS`] rises with it and records still finish, one slow or failing key holds the watermark.

use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

#[cfg(feature = "kafka")]
pub(crate) mod record;

/// Records that are finished. Label `outcome`: `processed`, `already_done` (found finished when they were delivered again), or
/// `given_up` (their handler has failed for good, and the failure policy has finished them).
pub const PARTITION_WORKER_RECORDS_TOTAL: &str = "partition_worker_records_total";

/// Attempts of handlers, and of what is done instead of them. Label `ended`: `done`, `failed` (the handler did), `disturbed` (something
/// else was in the way, and it is tried again), `fenced` (another worker owns the partition), or `cancelled`.
pub const PARTITION_WORKER_ATTEMPTS_TOTAL: &str = "partition_worker_attempts_total";

/// Seconds of an attempt, with its transaction.
pub const PARTITION_WORKER_ATTEMPT_SECONDS: &str = "partition_worker_attempt_seconds";

/// Handlers that run.
pub const PARTITION_WORKER_HANDLERS_RUNNING: &str = "partition_worker_handlers_running";

/// Handlers that have run for longer than `stall_after`.
pub const PARTITION_WORKER_HANDLERS_STALLED: &str = "partition_worker_handlers_stalled";

/// For how long the handler has run that was started first; 0 if none runs.
pub const PARTITION_WORKER_OLDEST_HANDLER_SECONDS: &str = "partition_worker_oldest_handler_seconds";

/// Handlers that have come to run for longer than `stall_after`, once each.
pub const PARTITION_WORKER_STALLS_TOTAL: &str = "partition_worker_stalls_total";

/// Partitions that Kafka has left to the worker.
pub const PARTITION_WORKER_PARTITIONS: &str = "partition_worker_partitions";

/// Partitions that changed hands. Label `event`: `assigned`, `revoked`, `lost`, or `fenced` (another worker has sealed it while Kafka
/// left it to this one).
pub const PARTITION_WORKER_REBALANCED_TOTAL: &str = "partition_worker_rebalanced_total";

/// Seconds from a revocation to its answer, in which all partitions of the worker stand still: the time that running handlers
/// were given.
pub const PARTITION_WORKER_DRAIN_SECONDS: &str = "partition_worker_drain_seconds";

/// Commits to Kafka that failed, and were made again or left to the next owner.
pub const PARTITION_WORKER_COMMITS_FAILED_TOTAL: &str = "partition_worker_commits_failed_total";

/// The worker's lag in a partition (`PartitionLag::lag`), where it is known. 0 once the partition is another's, so the sum over all workers is the group's lag.
pub const PARTITION_WORKER_LAG_OFFSETS: &str = "partition_worker_lag_offsets";

/// The gap in a partition (`PartitionLag::gap`). 0 once the partition is another's.
pub const PARTITION_WORKER_WATERMARK_GAP_OFFSETS: &str = "partition_worker_watermark_gap_offsets";

/// Tells the recorder what each metric means, and its unit.
pub fn describe() {
    describe_counter!(PARTITION_WORKER_RECORDS_TOTAL, Unit::Count, "finished records, by how");
    describe_counter!(PARTITION_WORKER_ATTEMPTS_TOTAL, Unit::Count, "attempts, by how they ended");
    describe_histogram!(PARTITION_WORKER_ATTEMPT_SECONDS, Unit::Seconds, "an attempt, with its transaction");
    describe_gauge!(PARTITION_WORKER_HANDLERS_RUNNING, Unit::Count, "handlers that run");
    describe_gauge!(PARTITION_WORKER_HANDLERS_STALLED, Unit::Count, "handlers that have run for too long");
    describe_gauge!(PARTITION_WORKER_OLDEST_HANDLER_SECONDS, Unit::Seconds, "how long the oldest handler has run");
    describe_counter!(PARTITION_WORKER_STALLS_TOTAL, Unit::Count, "handlers that came to run for too long");
    describe_gauge!(PARTITION_WORKER_PARTITIONS, Unit::Count, "partitions that Kafka has left to the worker");
    describe_counter!(PARTITION_WORKER_REBALANCED_TOTAL, Unit::Count, "partitions that changed hands, by how");
    describe_histogram!(PARTITION_WORKER_DRAIN_SECONDS, Unit::Seconds, "from a revocation to its answer");
    describe_counter!(PARTITION_WORKER_COMMITS_FAILED_TOTAL, Unit::Count, "commits to Kafka that failed");
    describe_gauge!(PARTITION_WORKER_LAG_OFFSETS, Unit::Count, "from the watermark to the end of the log");
    describe_gauge!(PARTITION_WORKER_WATERMARK_GAP_OFFSETS, Unit::Count, "from the watermark to what was delivered");
}

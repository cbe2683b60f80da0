//! What [`Retry`](crate::Retry) and [`Combiner`](crate::combiner::Combiner) measure (feature `metrics`): the names, with their
//! units.
//!
//! Figures go to whatever recorder the application has installed for the crate `metrics`; without one they go nowhere. Install
//! it before the first unit of work and the first combiner, and call [`describe`] once after that, for the exporters that show
//! what a metric means.
//!
//! Labels have a fixed set of values each, named below. No key, payload, table or owner is ever in one. All retries of a
//! process count together, and so do all combiners.
//!
//! | metric | kind | unit | labels |
//! |---|---|---|---|
//! | [`OCC_RETRY_ATTEMPTS_TOTAL`] | counter | attempts | |
//! | [`OCC_RETRY_RETRIES_TOTAL`] | counter | retries | `class` |
//! | [`OCC_RETRY_EXHAUSTED_TOTAL`] | counter | units of work | `limit` |
//! | [`OCC_RETRY_UNIT_SECONDS`] | histogram | seconds | `outcome` |
//! | [`OCC_COMBINER_QUEUE_OPERATIONS`] | gauge | operations | |
//! | [`OCC_COMBINER_BATCH_OPERATIONS`] | histogram | operations | |
//! | [`OCC_COMBINER_BATCH_SECONDS`] | histogram | seconds | |
//! | [`OCC_COMBINER_COMMIT_SECONDS`] | histogram | seconds | |
//! | [`OCC_COMBINER_RETRIES_TOTAL`] | counter | batches | `class` |
//! | [`OCC_COMBINER_SPLITS_TOTAL`] | counter | batches | |
//! | [`OCC_COMBINER_UNKNOWN_TOTAL`] | counter | operations | |
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leastlock_occ::metrics::describe;
//! use leastlock_occ::{Attempt, Retry};
//! use sqlx::Sqlite;
//!
//! // In the place of an exporter's.
//! let recorder = metrics_util::debugging::DebuggingRecorder::new();
//! # let snapshotter = recorder.snapshotter();
//! recorder.install()?;
//! describe();
//!
//! # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! Retry::default().run(&pool, async |attempt: Attempt<Sqlite>| attempt.commit(()).await).await?;
//! // occ_retry_attempts_total 1
//! // occ_retry_unit_seconds{outcome="committed"} 0.0004
//! # let seen = snapshotter.snapshot().into_vec();
//! # assert!(seen.iter().any(|(key, ..)| key.key().name() == leastlock_occ::metrics::OCC_RETRY_UNIT_SECONDS));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! A rising share of [`OCC_RETRY_RETRIES_TOTAL`] in [`OCC_RETRY_ATTEMPTS_TOTAL`] says that a row gets hot before anybody is
//! refused; what then counts in [`OCC_RETRY_EXHAUSTED_TOTAL`] was refused. Each of [`OCC_COMBINER_UNKNOWN_TOTAL`] is for
//! somebody to look at.

use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Attempts at units of work that were begun, the first of each included; also one whose `BEGIN` failed.
pub const OCC_RETRY_ATTEMPTS_TOTAL: &str = "occ_retry_attempts_total";

/// Attempts that met a conflict and after which another one is made. Label `class`: what the unit of work said of it
/// ([`ConflictClass::name`](crate::ConflictClass::name)), `version_conflict`, `serialization_failure`, `deadlock`, `busy`, or, where
/// the application's own error type says so, `state_conflict` or `other`.
pub const OCC_RETRY_RETRIES_TOTAL: &str = "occ_retry_retries_total";

/// Units of work that were given up with a conflict ([`RetryError::Exhausted`](crate::RetryError::Exhausted)). Label `limit`:
/// which one was reached, `attempts` or `time`; `attempts` if both were.
pub const OCC_RETRY_EXHAUSTED_TOTAL: &str = "occ_retry_exhausted_total";

/// Seconds from a unit's first attempt to its end, all attempts and pauses included. Label `outcome`: `committed`, `failed` (with
/// what is no conflict; also with a commit whose reply was lost), `exhausted`, or `dropped` by its caller before any of these.
pub const OCC_RETRY_UNIT_SECONDS: &str = "occ_retry_unit_seconds";

/// Operations that wait for their batch now, in the queue or for room in it. One whose caller has gone away counts until its
/// turn comes.
pub const OCC_COMBINER_QUEUE_OPERATIONS: &str = "occ_combiner_queue_operations";

/// Operations that were taken from the queue together, once for each such batch.
pub const OCC_COMBINER_BATCH_OPERATIONS: &str = "occ_combiner_batch_operations";

/// Seconds of an attempt at a batch after which its operations were answered: from taking it up, with the wait for a connection,
/// to the reply of its commit. Attempts that failed, or whose reply was lost, are not among them.
pub const OCC_COMBINER_BATCH_SECONDS: &str = "occ_combiner_batch_seconds";

/// Seconds of a batch's `COMMIT` alone, until its reply or until nothing more was to be expected. A batch that was applied in one
/// statement, or that wrote nothing, has none.
pub const OCC_COMBINER_COMMIT_SECONDS: &str = "occ_combiner_commit_seconds";

/// Batches that are applied once more, whole. Label `class`: why. The database's `serialization_failure`, `deadlock`, `busy`,
/// `lock_timeout`, `statement_timeout`, `connection_lost` or `pool_timeout`; `raced`, where another transaction came between two
/// statements; `attempt_timeout`, where the attempt reached its limit of time; `reply_lost`, where a repeat is absorbed and
/// nobody knows of the first; `other`.
pub const OCC_COMBINER_RETRIES_TOTAL: &str = "occ_combiner_retries_total";

/// Batches that were split in two, to find the operation that fails.
pub const OCC_COMBINER_SPLITS_TOTAL: &str = "occ_combiner_splits_total";

/// Operations that were answered [`CombineError::Unknown`](crate::combiner::CombineError::Unknown): they may or may not have been
/// committed.
pub const OCC_COMBINER_UNKNOWN_TOTAL: &str = "occ_combiner_unknown_total";

/// Tells the recorder what each metric means, and its unit.
pub fn describe() {
    describe_counter!(OCC_RETRY_ATTEMPTS_TOTAL, Unit::Count, "attempts at units of work, the first included");
    describe_counter!(OCC_RETRY_RETRIES_TOTAL, Unit::Count, "attempts that met a conflict and are followed by another");
    describe_counter!(OCC_RETRY_EXHAUSTED_TOTAL, Unit::Count, "units of work given up with a conflict, by the limit");
    describe_histogram!(OCC_RETRY_UNIT_SECONDS, Unit::Seconds, "a unit of work with all its attempts and pauses");
    describe_gauge!(OCC_COMBINER_QUEUE_OPERATIONS, Unit::Count, "operations that wait for their batch");
    describe_histogram!(OCC_COMBINER_BATCH_OPERATIONS, Unit::Count, "operations taken from the queue together");
    describe_histogram!(OCC_COMBINER_BATCH_SECONDS, Unit::Seconds, "an attempt at a batch that was committed");
    describe_histogram!(OCC_COMBINER_COMMIT_SECONDS, Unit::Seconds, "the COMMIT of a batch alone");
    describe_counter!(OCC_COMBINER_RETRIES_TOTAL, Unit::Count, "batches applied once more, by the reason");
    describe_counter!(OCC_COMBINER_SPLITS_TOTAL, Unit::Count, "batches split to find the operation that fails");
    describe_counter!(
        OCC_COMBINER_UNKNOWN_TOTAL,
        Unit::Count,
        "operations of which nobody knows whether they committed"
    );
}

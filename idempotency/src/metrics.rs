//! What both modes measure (feature `metrics`): the names, with their units.
//!
//! Figures go to whatever recorder the application has installed for the crate `metrics`; without one they go nowhere. Install
//! it before the first begin, and call [`describe`] once after that, for the exporters that show what a metric means.
//!
//! Labels have a fixed set of values each, named below. No key, scope, step, reason or payload is ever in one.
//!
//! | metric | kind | unit | labels |
//! |---|---|---|---|
//! | [`IDEMPOTENCY_BEGINS_TOTAL`] | counter | begins | `mode`, `outcome` |
//! | [`IDEMPOTENCY_UNITS_TOTAL`] | counter | units | `ended` |
//! | [`IDEMPOTENCY_RUNS_TOTAL`] | counter | runs | `ended` |
//! | [`IDEMPOTENCY_STEPS_TOTAL`] | counter | steps | `kind`, `outcome` |
//! | [`IDEMPOTENCY_RENEWALS_FAILED_TOTAL`] | counter | renewals | |
//! | [`IDEMPOTENCY_ASKS_TOTAL`] | counter | asks | `answer` |
//! | [`IDEMPOTENCY_RESOLUTIONS_TOTAL`] | counter | resolutions | `by`, `resolution`, `outcome` |
//! | [`IDEMPOTENCY_UNKNOWN_KEYS`] | gauge | keys | |
//! | [`IDEMPOTENCY_UNKNOWN_OLDEST_SECONDS`] | gauge | seconds | |
//!
//! Those of the HTTP layer have a page of their own, `http::metrics` (feature `tower`); in replay mode its claims are begins of the
//! phased mode and count here as well.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leastlock_idempotency::metrics::describe;
//! use leastlock_idempotency::phased::Phased;
//! use std::time::Duration;
//!
//! // In the place of an exporter's.
//! let recorder = metrics_util::debugging::DebuggingRecorder::new();
//! # let snapshotter = recorder.snapshotter();
//! recorder.install()?;
//! describe();
//!
//! # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! # leastlock_idempotency::MIGRATIONS.run(&pool).await?;
//! // On a schedule: it is what sets the two gauges.
//! Phased::default().list_unknown(&pool, Duration::ZERO, 1000).await?;
//! // idempotency_unknown_keys 0
//! // idempotency_unknown_oldest_seconds 0
//! # let seen = snapshotter.snapshot().into_vec();
//! # assert!(seen.iter().any(|(key, ..)| key.key().name() == leastlock_idempotency::metrics::IDEMPOTENCY_UNKNOWN_KEYS));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! [`IDEMPOTENCY_UNKNOWN_OLDEST_SECONDS`] that grows says that nobody looks after what is unknown. `superseded` in
//! [`IDEMPOTENCY_RUNS_TOTAL`] says that leases are too short for the work, or that processes stop; [`IDEMPOTENCY_RENEWALS_FAILED_TOTAL`]
//! comes before it.

use ::metrics::{Unit, describe_counter, describe_gauge};

/// Begins that came to an answer; one that its caller dropped is not among them. Label `mode`: `transactional` (`begin` and
/// `begin_in`) or `phased`. Label `outcome`: `first`, `resumed` (phased: a first whose owner has died), `replay`, `mismatch`,
/// `in_flight`, `unknown` (phased: held), or `error`.
pub const IDEMPOTENCY_BEGINS_TOTAL: &str = "idempotency_begins_total";

/// Units of the transactional mode that have ended. Label `ended`: `completed`, `released`, `dropped` (rolled back), `failed` (their
/// completion met an error), or `unknown` (the reply of the commit was lost).
pub const IDEMPOTENCY_UNITS_TOTAL: &str = "idempotency_units_total";

/// Runs of the phased mode that have ended, once each. Label `ended`: `completed`, `released`, `held` (by a policy or by the program;
/// somebody is to look at it), `superseded` (the key was somebody else's), or `left` (dropped before any of these: the lease ends
/// it).
pub const IDEMPOTENCY_RUNS_TOTAL: &str = "idempotency_runs_total";

/// Steps and compensations that were asked for. Label `kind`: `local` or `external`. Label `outcome`: `done`; `recorded` (it had been
/// done, or refused, before: it did not run); local only: `rolled_back` (dropped, or not recorded); external only: `failed` (a
/// definite no), `not_sent`, `held`; both: `unknown` (the reply of the commit was lost; no definite word of the call).
pub const IDEMPOTENCY_STEPS_TOTAL: &str = "idempotency_steps_total";

/// Renewals of a lease in the background that failed and are tried again, sooner. One that found the key to be somebody else's is
/// `superseded` in [`IDEMPOTENCY_RUNS_TOTAL`] instead.
pub const IDEMPOTENCY_RENEWALS_FAILED_TOTAL: &str = "idempotency_renewals_failed_total";

/// Providers that a reconciler has asked. Label `answer`: `done`, `failed`, `not_done`, or `still_unknown` (also where no answer came
/// in time).
pub const IDEMPOTENCY_ASKS_TOTAL: &str = "idempotency_asks_total";

/// Resolutions. Label `by`: `operator` or `reconciler`. Label `resolution`: as in the audit, `step-done`, `step-failed`,
/// `step-not-done`, `completed`, `released` or `resumed`. Label `outcome`: `applied`, `changed` (the key was not any more as it was
/// listed), or `error`.
pub const IDEMPOTENCY_RESOLUTIONS_TOTAL: &str = "idempotency_resolutions_total";

/// Keys that [`list_unknown`](crate::phased::Phased::list_unknown) has answered, the last time that it did: of the age that it
/// was asked for, and no more than its limit. Where nobody lists, nothing is set.
pub const IDEMPOTENCY_UNKNOWN_KEYS: &str = "idempotency_unknown_keys";

/// Seconds for which the oldest of these has been unknown; 0 if there was none.
pub const IDEMPOTENCY_UNKNOWN_OLDEST_SECONDS: &str = "idempotency_unknown_oldest_seconds";

/// Tells the recorder what each metric means, and its unit.
pub fn describe() {
    describe_counter!(IDEMPOTENCY_BEGINS_TOTAL, Unit::Count, "begins, by what the request turned out to be");
    describe_counter!(IDEMPOTENCY_UNITS_TOTAL, Unit::Count, "units of the transactional mode, by how they ended");
    describe_counter!(IDEMPOTENCY_RUNS_TOTAL, Unit::Count, "runs of the phased mode, by how they ended");
    describe_counter!(IDEMPOTENCY_STEPS_TOTAL, Unit::Count, "steps that were asked for, by what they came to");
    describe_counter!(IDEMPOTENCY_RENEWALS_FAILED_TOTAL, Unit::Count, "renewals of a lease that are tried again");
    describe_counter!(IDEMPOTENCY_ASKS_TOTAL, Unit::Count, "providers asked by a reconciler, by their answer");
    describe_counter!(IDEMPOTENCY_RESOLUTIONS_TOTAL, Unit::Count, "resolutions of unknown keys, by whom and how");
    describe_gauge!(IDEMPOTENCY_UNKNOWN_KEYS, Unit::Count, "unknown keys, when they were listed last");
    describe_gauge!(IDEMPOTENCY_UNKNOWN_OLDEST_SECONDS, Unit::Seconds, "how long the oldest of them has been unknown");
}

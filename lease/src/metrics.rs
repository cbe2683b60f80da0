//! What leases measure (feature `metrics`): the names, with their units.
//!
//! Figures go to whatever recorder the application has installed for the crate `metrics`; without one they go nowhere. Install
//! it before the first lease is acquired, and call [`describe`] once after that, for the exporters that show what a metric means.
//!
//! Labels have a fixed set of values each, named below. No lock, owner, token or job is ever in one.
//!
//! | metric | kind | unit | labels |
//! |---|---|---|---|
//! | [`LEASE_WAIT_SECONDS`] | histogram | seconds | `outcome` |
//! | [`LEASE_WAITERS`] | gauge | acquisitions | |
//! | [`LEASE_HELD_SECONDS`] | histogram | seconds | `ended` |
//! | [`LEASE_RENEW_SECONDS`] | histogram | seconds | `outcome` |
//! | [`LEASE_RENEW_FAILED_TOTAL`] | counter | attempts | |
//! | [`LEASE_LOST_TOTAL`] | counter | leases | `reason` |
//! | [`LEASE_STALE_WRITE_REFUSED_TOTAL`] | counter | refusals | `refusal` |
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use leastlock_lease::metrics::describe;
//! use leastlock_lease::{Hold, Leases, LockName, SqlLeaseStore};
//!
//! // In the place of an exporter's.
//! let recorder = metrics_util::debugging::DebuggingRecorder::new();
//! # let snapshotter = recorder.snapshotter();
//! recorder.install()?;
//! describe();
//!
//! # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! # leastlock_lease::MIGRATIONS.run(&pool).await?;
//! let leases = Leases::new(SqlLeaseStore::new(&pool));
//! let lease = leases.acquire(&LockName::new("job:settlement")?, Hold::renewed(Duration::from_secs(30))).await?;
//! let _ = lease.release().await;
//! // lease_wait_seconds{outcome="granted"} 0.0006
//! // lease_held_seconds{ended="released"} 0.0002
//! # let seen = snapshotter.snapshot().into_vec();
//! # assert!(seen.iter().any(|(key, ..)| key.key().name() == leastlock_lease::metrics::LEASE_HELD_SECONDS));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! [`LEASE_RENEW_FAILED_TOTAL`] comes before `expired` in [`LEASE_LOST_TOTAL`]: the store is slow or away. `expired` without it says that
//! processes are paused for longer than the TTL ([`LeaseBudget`](crate::LeaseBudget)). Each of [`LEASE_STALE_WRITE_REFUSED_TOTAL`] is a
//! write that without the fence would have gone over a newer holder's.

use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Seconds from the call of an acquisition to its answer. Label `outcome`: `granted`, `handed_on` (by another holder of this process),
/// `held` (somebody else had it), `unanswered`, `refused` (by the store), or `cancelled` (its caller dropped it).
pub const LEASE_WAIT_SECONDS: &str = "lease_wait_seconds";

/// Acquisitions of this process that wait now: for another holder, for their turn, or for an answer after the first.
pub const LEASE_WAITERS: &str = "lease_waiters";

/// Seconds from the grant of a lease to its end, on the holder's side. Label `ended`: as `reason` of [`LEASE_LOST_TOTAL`], or
/// `released`.
pub const LEASE_HELD_SECONDS: &str = "lease_held_seconds";

/// Seconds of one attempt to renew. Label `outcome`: `confirmed`, `not_owner`, or `unanswered`.
pub const LEASE_RENEW_SECONDS: &str = "lease_renew_seconds";

/// Attempts to renew that were not answered in time, or with an error. Each makes its lease unconfirmed.
pub const LEASE_RENEW_FAILED_TOTAL: &str = "lease_renew_failed_total";

/// Leases that ended otherwise than by a release. Label `reason`: `expired`, `not_owner`, `max_hold`, or `abandoned` (left to expire,
/// since what became of its work is not known).
pub const LEASE_LOST_TOTAL: &str = "lease_lost_total";

/// Permits that were refused at a resource. Label `refusal`: `lost` (the holder's side knew), `superseded`, `other_owner`,
/// `spent` (a row that takes one write a generation had it), `absent` (there is no such row), or `not_sealed` (a mistake of the
/// caller's: seal first).
pub const LEASE_STALE_WRITE_REFUSED_TOTAL: &str = "lease_stale_write_refused_total";

/// Tells the recorder what each metric means, and its unit.
pub fn describe() {
    describe_histogram!(LEASE_WAIT_SECONDS, Unit::Seconds, "an acquisition, from the call to its answer");
    describe_gauge!(LEASE_WAITERS, Unit::Count, "acquisitions that wait");
    describe_histogram!(LEASE_HELD_SECONDS, Unit::Seconds, "a lease, from its grant to its end");
    describe_histogram!(LEASE_RENEW_SECONDS, Unit::Seconds, "one attempt to renew");
    describe_counter!(LEASE_RENEW_FAILED_TOTAL, Unit::Count, "attempts to renew without an answer");
    describe_counter!(LEASE_LOST_TOTAL, Unit::Count, "leases that ended otherwise than by a release, by the reason");
    describe_counter!(LEASE_STALE_WRITE_REFUSED_TOTAL, Unit::Count, "permits refused at a resource, by the reason");
}

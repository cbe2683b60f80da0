//! What the cases share.

use std::sync::Arc;
use std::time::Duration;

use leastlock_lease::{FencedStore, Hold, Leases, LockName};
use leastlock_testkit::TestEngine;
use sqlx::Transaction;

use crate::clock::ManualClock;
use crate::rig::Rig;
use crate::wire::{Control, Wire};

/// Longer than any test takes, so that nothing expires by itself.
pub(crate) const LONG: Duration = Duration::from_mins(1);
/// For a lease whose renewals are waited for, on a clock that hastens them. Longer than a busy machine stands still: at the store it
/// passes.
pub(crate) const SOON: Duration = Duration::from_secs(9);
/// How long a condition is waited for.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
pub(crate) const VALUE: &str = "SELECT value FROM protected";
pub(crate) const A_WRITES: &str = "UPDATE protected SET value = 1";
pub(crate) const B_WRITES: &str = "UPDATE protected SET value = 2";

pub(crate) fn lock() -> LockName {
    LockName::new("report:tenant-7:2026-09").unwrap()
}

pub(crate) fn fixed() -> Hold {
    Hold::fixed(LONG)
}

/// As another process has them.
pub(crate) fn leases<R: Rig>(rig: &R) -> Leases<R::Store> {
    Leases::new(rig.store())
}

/// As another process has them, whose renewals are due without a wait, see [`Control::clock`]. A renewal is late by up to two times
/// a thirtieth of its TTL, which is real: with [`SOON`] about 300 ms after the one before, and 600 at the most.
pub(crate) fn hastened<S: FencedStore>(store: S) -> (Leases<Wire<S>>, Arc<Control>) {
    let (wire, control) = Wire::new(store);
    (Leases::new(wire).clock(control.clock.clone()), control)
}

/// As another process has them, by whose clock no time passes, however slow the machine is.
pub(crate) fn unhurried<S: FencedStore>(store: S) -> (Leases<Wire<S>>, Arc<Control>) {
    let (wire, control) = Wire::new(store);
    (Leases::new(wire).clock(ManualClock::new()), control)
}

pub(crate) async fn write<DB: TestEngine>(
    tx: &mut Transaction<'_, DB>,
    value: &'static str,
) -> Result<u64, sqlx::Error> {
    DB::run_query(tx, sqlx::query(value)).await
}

/// Waits until `condition` holds.
pub(crate) async fn eventually(what: &str, condition: impl AsyncFnMut() -> bool) {
    leastlock_testkit::until(what, LIMIT, condition).await;
}

/// Whether one of the attempts that are made for so long is answered. Each is dropped when it takes longer than `attempt`.
#[cfg(all(feature = "sqlite", any(feature = "redis", feature = "etcd")))]
pub(crate) async fn answered_by_one_of_many<F: Future<Output = Result<(), leastlock_lease::StoreError>>>(
    attempt: Duration,
    limit: Duration,
    ask: impl Fn() -> F,
) -> bool {
    let begun = std::time::Instant::now();
    while begun.elapsed() < limit {
        if tokio::time::timeout(attempt, ask()).await.is_ok_and(|answer| answer.is_ok()) {
            return true;
        }
    }
    false
}

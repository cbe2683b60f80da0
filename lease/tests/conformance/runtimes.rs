//! One `Leases` on two runtimes, of which one stands still. On SQLite, whose connections belong to neither.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leastlock_lease::{Hold, LeaseStatus, Leases, LockName, LossReason};
use sqlx::Sqlite;
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::rig::{Rig, Sql};
use crate::wire::Wire;
use crate::world::{LIMIT, lock};

const SHORT: Hold = Hold::renewed(Duration::from_millis(2400));

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn renewals_do_not_depend_on_a_runtime_that_nobody_drives() {
    let rig = Sql::<Sqlite>::create().await;
    let (wire, control) = Wire::new(rig.store());
    let leases = Leases::new(wire);
    let first = leases.clone();
    // The runtime is kept, and driven no more once it has brought its lease.
    let (idle, kept) = spawn_blocking(move || {
        let (idle, other) =
            (Builder::new_current_thread().enable_all().build().unwrap(), LockName::new("a:b").unwrap());
        let kept = idle.block_on(first.acquire(&other, SHORT)).unwrap();
        (idle, kept)
    })
    .await
    .unwrap();
    let lease = leases.acquire(&lock(), SHORT).await.unwrap();
    control.reached("renewal done", 2).await;
    assert!(lease.remaining().is_ok(), "{:?}", lease.status());
    control.renewals_fail.store(true, Ordering::SeqCst);
    timeout(LIMIT, lease.lost()).await.expect("its deadline is noticed");
    assert_eq!(lease.status(), LeaseStatus::Lost { reason: LossReason::Expired });
    assert!(kept.remaining().is_err(), "whose runtime stands still is not renewed");
    spawn_blocking(move || drop((kept, idle))).await.unwrap();
}

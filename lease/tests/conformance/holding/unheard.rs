//! Attempts whose answer nobody hears: the reply is lost, or the caller has gone.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leastlock_lease::{Acquire, Claim, Error, FencedStore, Hold, LeaseStore, Leases, OwnerNonce, Released};
use tokio::time::{Instant, timeout};

use super::doubles::{Mistake, Mistaken};
use crate::rig::Rig;
use crate::wire::{Control, Wire};
use crate::world::{LIMIT, LONG, fixed, leases, lock};

pub(crate) async fn l7_repeated_acquire_finds_itself_owner_with_the_same_token<R: Rig>(rig: R) {
    let issued = acquire_with_lost_replies(rig.store(), LIMIT).await.expect("it finds itself");
    assert_eq!(issued, [issued[0]; 3], "one token, however often it is asked for");
    assert_eq!(rig.look().await.token, Some(issued[0]));
    rig.forget().await;
    let double = Mistaken::new(&rig, Mistake::ForgetsItsNonce);
    let patience = Duration::from_millis(300);
    assert_eq!(acquire_with_lost_replies(double, patience).await, None, "the double waits for itself");
}

/// The tokens that the store issued.
async fn acquire_with_lost_replies(store: impl FencedStore, patience: Duration) -> Option<Vec<i64>> {
    let (wire, control) = Wire::new(store);
    control.lost_replies.store(2, Ordering::SeqCst);
    let policy = Acquire::waiting(patience);
    let lease = Leases::new(wire).acquire_with(&lock(), fixed(), policy).await.ok()?;
    assert_eq!(control.count("acquire sent"), 3);
    assert_eq!(control.issued().last(), Some(&lease.token().value()));
    Some(control.issued())
}

pub(crate) async fn l7_hanging_acquire_is_repeated_as_well<R: Rig>(rig: R) {
    let (wire, control) = Wire::new(rig.store());
    control.lost_replies.store(1, Ordering::SeqCst);
    control.lost_replies_hang.store(true, Ordering::SeqCst);
    // An attempt is given up after a third of it.
    let ttl = Duration::from_secs(3);
    let late = Leases::new(wire);
    let lease = tokio::spawn(async move { late.acquire(&lock(), Hold::fixed(ttl)).await.unwrap() });
    control.reached("acquire done", 1).await;
    let first = Instant::now();
    let lease = lease.await.unwrap();
    let issued = control.issued();
    assert_eq!(issued, vec![lease.token().value(); issued.len()], "one token, however often it is asked for");
    assert!(issued.len() > 1);
    let since = first.elapsed();
    let rival = leases(&rig).acquire_with(&lock(), fixed(), Acquire::fail_fast()).await;
    let Err(Error::Held { holder, .. }) = rival else { panic!("{rival:?}") };
    assert!(holder.remaining + since > ttl, "the repeat extends the lease that it finds: {holder}");
}

pub(crate) async fn l10_cancelled_acquire_leaves_nothing_behind<R: Rig>(rig: R) {
    let right = async |wire: Wire<R::Store>| {
        let _ = Leases::new(wire).acquire(&lock(), fixed()).await;
    };
    assert!(!left_behind(&rig, LIMIT, right).await);
    // The double ends its attempt with its caller: what is granted then belongs to nobody.
    let double = async |wire: Wire<R::Store>| {
        let (name, nonce) = (lock(), OwnerNonce::random().unwrap());
        let _ = wire.acquire(Claim::new(&name, nonce, LONG)).await;
    };
    assert!(left_behind(&rig, Duration::from_millis(300), double).await, "the double leaves a lock that nobody has");
}

/// The caller is dropped while its attempt is on its way to the store; answers whether the lock is held once it has arrived,
/// and all is done that will be.
async fn left_behind<R: Rig>(rig: &R, patience: Duration, acquire: impl AsyncFnOnce(Wire<R::Store>)) -> bool {
    rig.forget().await;
    let (wire, control) = Wire::new(rig.store());
    let _goes_on = wire.keep();
    Control::close(&control.acquire_gate);
    tokio::select! {
        () = acquire(wire) => panic!("an attempt that has not arrived was answered"),
        () = control.reached("acquire sent", 1) => {}
    }
    Control::open(&control.acquire_gate);
    control.reached("acquire done", 1).await;
    // Nothing to wait for where nothing comes; whoever gives back has until here.
    let released = timeout(patience, control.reached("released", 1)).await;
    let held = rig.look().await.held;
    assert_eq!(released.is_ok(), !held, "{:?}", control.log());
    held
}

pub(crate) async fn l10_cancelled_waiter_keeps_nobody_from_the_lock<R: Rig>(rig: R) {
    let leases = leases(&rig);
    let first = leases.acquire(&lock(), fixed()).await.unwrap();
    let wait = || {
        let leases = leases.clone();
        tokio::spawn(async move { leases.acquire_with(&lock(), fixed(), Acquire::waiting(LIMIT)).await })
    };
    let (cancelled, patient) = (wait(), wait());
    tokio::time::sleep(Duration::from_millis(50)).await;
    cancelled.abort();
    assert!(cancelled.await.unwrap_err().is_cancelled());
    assert_eq!(first.release().await, Released::Released);
    let lease = patient.await.unwrap().expect("the one who still waits gets it");
    assert_eq!(lease.release().await, Released::Released);
}

use std::time::Duration;

use leastlock_lease::{
    Acquire, Claim, CorrectnessLease, FencedStore, Grant, Hold, LeaseStore, Leases, Release, Released,
};
use tokio::time::{sleep, timeout};

use super::FairRig;
use super::suite::{SHORT_TTL, nonces};
use crate::wire::Wire;
use crate::world::{LIMIT, LONG, fixed, leases, lock};

pub(crate) async fn a_waiter_keeps_its_place_beyond_its_ttl<R: FairRig>(rig: R) {
    let (holder, name) = (leases(&rig).acquire(&lock(), fixed()).await.unwrap(), lock());
    let (wire, control) = Wire::new(rig.store());
    let first = tokio::spawn(acquire(wire, Hold::renewed(SHORT_TTL)));
    control.reached("waiter made", 1).await;
    // The double asks once, and does not say that it is still there.
    let (double, [silent]) = (rig.store(), nonces());
    assert!(matches!(double.acquire(Claim::new(&name, silent, SHORT_TTL)).await.unwrap(), Grant::Held(_)));
    let (wire, later) = Wire::new(rig.store());
    let last = tokio::spawn(acquire(wire, fixed()));
    later.reached("waiter made", 1).await;
    let sent = control.count("acquire done");
    control.reached("acquire done", sent + 6).await;

    assert_eq!(holder.release().await, Released::Released);
    let first = timeout(LIMIT, first).await.expect("it is its turn").unwrap();
    assert!(!last.is_finished());
    let token = first.token();
    assert_eq!(first.release().await, Released::Released);
    let last = timeout(LIMIT, last).await.expect("nobody is before it").unwrap();
    assert!(last.token() > token);
    assert!(matches!(double.acquire(Claim::new(&name, silent, SHORT_TTL)).await.unwrap(), Grant::Held(_)));
}

pub(crate) async fn a_turn_that_is_told_of_brings_a_whole_lease<R: FairRig>(rig: R) {
    const TTL: Duration = Duration::from_secs(10);
    let (store, name, [holder, waits]) = (rig.store(), lock(), nonces());
    assert!(matches!(store.acquire(Claim::new(&name, holder, LONG)).await.unwrap(), Grant::Granted { .. }));
    assert!(matches!(store.acquire(Claim::new(&name, waits, TTL)).await.unwrap(), Grant::Held(_)));
    // More than what counts as just extended, and less than what a claim's lease must have left.
    sleep(TTL / 8).await;
    assert_eq!(store.release(Claim::new(&name, holder, LONG)).await.unwrap(), Release::Released);
    let Grant::Granted { ttl, .. } = store.acquire(Claim::new(&name, waits, TTL)).await.unwrap() else {
        panic!("its turn has come")
    };
    assert!(ttl + TTL / 20 >= TTL, "{ttl:?}");
}

async fn acquire(store: impl FencedStore, hold: Hold) -> CorrectnessLease {
    Leases::new(store).acquire_with(&lock(), hold, Acquire::waiting(LONG)).await.unwrap()
}

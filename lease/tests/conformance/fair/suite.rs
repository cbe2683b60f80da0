use std::sync::Arc;
use std::time::Duration;

use leastlock_lease::{
    Claim, FencedStore, FencingToken, Forced, Grant, LeaseStore, LockName, OwnerNonce, Pause, Release, Renewal, Waiter,
};
use tokio::time::timeout;

use super::FairRig;
use super::doubles::{Mistake, Mistaken};
#[cfg(feature = "etcd")]
pub(crate) use super::place::{a_turn_that_is_told_of_brings_a_whole_lease, a_waiter_keeps_its_place_beyond_its_ttl};
use crate::admin::{Admin, approval};
use crate::world::{LIMIT, LONG, eventually, lock};

/// Longer than any wait in here, so that whoever wakes earlier was woken.
const FAR: Pause = Pause::new(Duration::from_hours(1), Duration::from_hours(1));
const MOMENT: Duration = Duration::from_millis(500);
/// About as short as these stores have it.
pub(super) const SHORT_TTL: Duration = Duration::from_secs(2);

fn claim(name: &LockName, nonce: OwnerNonce) -> Claim<'_> {
    Claim::new(name, nonce, LONG)
}

pub(super) fn nonces<const N: usize>() -> [OwnerNonce; N] {
    [(); N].map(|()| OwnerNonce::random().unwrap())
}

pub(crate) async fn l9_waiter_whose_own_place_has_run_out_is_refused<R: FairRig>(rig: R) {
    assert!(!granted_without_a_place(&rig, rig.store()).await);
    rig.forget().await;
    let double = Mistaken::new(&rig, Mistake::TrustsItsPredecessor);
    assert!(granted_without_a_place(&rig, double).await, "the double holds what another one has");
}

/// Of two waiters the first one's place runs out before its turn comes; answers whether it is granted the lock all the same.
async fn granted_without_a_place<R: FairRig>(rig: &R, store: impl FencedStore) -> bool {
    let (others, name, [holder, late, next]) = (rig.store(), lock(), nonces());
    assert!(matches!(others.acquire(claim(&name, holder)).await.unwrap(), Grant::Granted { .. }));
    assert!(matches!(store.acquire(claim(&name, late)).await.unwrap(), Grant::Held(_)));
    assert!(matches!(others.acquire(claim(&name, next)).await.unwrap(), Grant::Held(_)));
    rig.end_claim(late).await;
    assert_eq!(others.release(claim(&name, holder)).await.unwrap(), Release::Released);

    let granted = matches!(store.acquire(claim(&name, late)).await.unwrap(), Grant::Granted { .. });
    let Grant::Granted { token, .. } = others.acquire(claim(&name, next)).await.unwrap() else {
        panic!("the other one's turn has come")
    };
    assert!(matches!(others.renew(claim(&name, next), token).await.unwrap(), Renewal::Renewed { .. }));
    if !granted {
        assert_eq!(others.release(claim(&name, next)).await.unwrap(), Release::Released);
        let Grant::Granted { token: later, .. } = store.acquire(claim(&name, late)).await.unwrap() else {
            panic!("it stands in the queue again")
        };
        assert!(later > token, "with a token of its new place");
    }
    granted
}

pub(crate) async fn a_lock_goes_to_the_oldest_claim<R: FairRig>(rig: R) {
    assert!(goes_in_order(&rig, Arc::new(rig.store())).await);
    rig.forget().await;
    let double = Arc::new(Mistaken::new(&rig, Mistake::LosesItsPlace));
    assert!(!goes_in_order(&rig, double).await, "the double gives the lock to whoever asks first");
}

async fn goes_in_order<R: FairRig>(rig: &R, store: Arc<impl FencedStore>) -> bool {
    const WAITERS: usize = 4;
    let (name, holder, waiters) = (lock(), rig.store(), nonces::<WAITERS>());
    let [first] = nonces();
    assert!(matches!(holder.acquire(claim(&name, first)).await.unwrap(), Grant::Granted { .. }));
    for waiter in waiters {
        assert!(matches!(store.acquire(claim(&name, waiter)).await.unwrap(), Grant::Held(_)));
    }
    assert_eq!(holder.release(claim(&name, first)).await.unwrap(), Release::Released);
    for turn in 0..WAITERS {
        // Those who came last ask first.
        for waiter in (turn..WAITERS).rev() {
            let granted = matches!(store.acquire(claim(&name, waiters[waiter])).await.unwrap(), Grant::Granted { .. });
            if granted != (waiter == turn) {
                return false;
            }
        }
        assert_eq!(store.release(claim(&name, waiters[turn])).await.unwrap(), Release::Released);
    }
    true
}

pub(crate) async fn a_waiter_that_is_gone_is_passed_over<R: FairRig>(rig: R) {
    let (store, name, [holder, gone, given_up, last]) = (rig.store(), lock(), nonces());
    assert!(matches!(store.acquire(claim(&name, holder)).await.unwrap(), Grant::Granted { .. }));
    for waiter in [gone, given_up, last] {
        assert!(matches!(store.acquire(claim(&name, waiter)).await.unwrap(), Grant::Held(_)));
    }
    let mut waiter = store.waiter(claim(&name, last));
    // It waits for the one before it, and not for the lock.
    while timeout(MOMENT, waiter.wait(FAR)).await.is_ok() {}
    assert_eq!(store.release(claim(&name, given_up)).await.unwrap(), Release::NotOwner, "it never was");
    timeout(LIMIT, waiter.wait(FAR)).await.expect("the one before it is another now");
    assert!(matches!(store.acquire(claim(&name, last)).await.unwrap(), Grant::Held(_)));
    rig.end_claim(gone).await;
    timeout(LIMIT, waiter.wait(FAR)).await.expect("the one before it is another now");
    assert!(matches!(store.acquire(claim(&name, last)).await.unwrap(), Grant::Held(_)));
    assert_eq!(store.release(claim(&name, holder)).await.unwrap(), Release::Released);
    timeout(LIMIT, waiter.wait(FAR)).await.expect("it is its turn");
    assert!(matches!(store.acquire(claim(&name, last)).await.unwrap(), Grant::Granted { .. }));
}

pub(crate) async fn l17_who_waits_stands_anew_above_the_raised_token<R: FairRig + Admin>(rig: R) {
    let (store, name, [holder, first, last]) = (rig.store(), lock(), nonces());
    let held = granted(&store, holder).await;
    for waiter in [first, last] {
        assert!(matches!(store.acquire(claim(&name, waiter)).await.unwrap(), Grant::Held(_)));
    }
    let Forced::Released(seizure) = rig.force(held, &approval()).await.unwrap() else { panic!("it is held") };
    for waiter in [first, last] {
        assert!(granted(&store, waiter).await > seizure.token(), "whoever seals for the operation does not refuse it");
        assert_eq!(store.release(claim(&name, waiter)).await.unwrap(), Release::Released);
    }

    // The double stands behind the others for a token of its own, and removes the holder alone.
    let [holder, behind, operation] = nonces();
    granted(&store, holder).await;
    for waiter in [behind, operation] {
        assert!(matches!(store.acquire(claim(&name, waiter)).await.unwrap(), Grant::Held(_)));
    }
    rig.end_whosever_it_is().await;
    let waited = granted(&store, behind).await;
    assert_eq!(store.release(claim(&name, behind)).await.unwrap(), Release::Released);
    assert!(waited < granted(&store, operation).await, "its token refuses who comes next");
}

async fn granted(store: &impl FencedStore, nonce: OwnerNonce) -> FencingToken {
    match store.acquire(claim(&lock(), nonce)).await.unwrap() {
        Grant::Granted { token, .. } => token,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn a_turn_that_is_told_of_is_refused_below_the_floor<R: FairRig>(rig: R) {
    assert!(!granted_below_the_floor(rig.store()).await);
    rig.forget().await;
    let double = Mistaken::new(&rig, Mistake::ForgetsTheFloor);
    assert!(granted_below_the_floor(double).await, "the double holds a lock with a token that the resource refuses");
}

/// A claim stands in the queue below its floor, as one does whose removal was not answered, and the release of the one before it, by the same
/// store, tells that its turn has come; answers whether it is granted.
async fn granted_below_the_floor(store: impl FencedStore) -> bool {
    let (name, [holder, below, next]) = (lock(), nonces());
    let token = granted(&store, holder).await;
    assert!(matches!(store.acquire(claim(&name, below)).await.unwrap(), Grant::Held(_)));
    assert_eq!(store.release(claim(&name, holder)).await.unwrap(), Release::Released);
    let mut sealed = claim(&name, below);
    sealed.floor = FencingToken::new(token.value() + (1 << 40));
    let was_granted = match store.acquire(sealed).await.unwrap() {
        Grant::Granted { token: later, .. } => later > token,
        Grant::BelowFloor { token: later } => {
            assert!(later > token);
            assert!(granted(&store, next).await > later, "it has left the queue");
            assert_eq!(store.release(claim(&name, next)).await.unwrap(), Release::Released);
            false
        }
        other @ Grant::Held(_) => panic!("{other:?}"),
    };
    let _ = store.release(sealed).await.unwrap();
    was_granted
}

pub(crate) async fn a_waiter_hears_of_a_lease_that_has_run_out<R: FairRig>(rig: R) {
    let (store, name, [holder, waiting]) = (rig.store(), lock(), nonces());
    let short = Claim::new(&name, holder, SHORT_TTL);
    assert!(matches!(store.acquire(short).await.unwrap(), Grant::Granted { .. }));
    assert!(matches!(store.acquire(claim(&name, waiting)).await.unwrap(), Grant::Held(_)));
    let mut waiter = store.waiter(claim(&name, waiting));
    // Nobody renews the holder's, and nobody will release it.
    store.let_expire(short, SHORT_TTL);
    timeout(LIMIT / 2, waiter.wait(FAR)).await.expect("its end is an event");
    eventually("it is the waiter's turn", async || {
        matches!(store.acquire(claim(&name, waiting)).await.unwrap(), Grant::Granted { .. })
    })
    .await;
}

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leastlock_lease::{
    Acquire, Claim, EfficiencyLease, Error, FencedStore, Grant, Hold, LeaseStore, Leases, OwnerNonce, Pause, Polling,
    Released, Waiter, WakeUp,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::doubles::Deaf;
use crate::rig::Rig;
use crate::wire::{Control, Wire};
use crate::world::{LIMIT, LONG, SOON, fixed, hastened, leases, lock, unhurried};

/// So long that whoever wakes earlier was woken.
const FAR: Pause = Pause::new(Duration::from_hours(1), Duration::from_hours(1));
/// How long something is given that must not come.
const MOMENT: Duration = Duration::from_millis(150);

pub(crate) async fn a_release_elsewhere_is_heard_where_the_store_tells_of_it<R: Rig>(rig: R) {
    let told = R::Store::CAPABILITIES.wake_up == WakeUp::Woken;
    let heard = hears_of_a_release(&rig, LeaseStore::waiter, if told { LIMIT } else { MOMENT }).await;
    assert_eq!(heard, told);
    assert!(!hears_of_a_release(&rig, |_, _| Polling, MOMENT).await, "the double is not told");
}

async fn hears_of_a_release<R: Rig, W: Waiter>(
    rig: &R,
    waiter: impl FnOnce(&R::Store, Claim<'_>) -> W,
    patience: Duration,
) -> bool {
    let (store, elsewhere, name) = (rig.store(), rig.store(), lock());
    let [holder, waiting] = [(); 2].map(|()| OwnerNonce::random().unwrap());
    let (claim, late) = (Claim::new(&name, holder, LONG), Claim::new(&name, waiting, LONG));
    assert!(matches!(store.acquire(claim).await.unwrap(), Grant::Granted { .. }));
    assert!(matches!(elsewhere.acquire(late).await.unwrap(), Grant::Held(_)));
    let mut waiter = waiter(&elsewhere, late);
    // It may look around first, and has come to wait when it does not return.
    while timeout(MOMENT, waiter.wait(FAR)).await.is_ok() {}
    // Between two waits, so that it must be kept until the next one.
    let _ = store.release(claim).await.unwrap();
    let heard = timeout(patience, waiter.wait(FAR)).await.is_ok();
    let _ = elsewhere.release(late).await.unwrap();
    heard
}

pub(crate) async fn a_release_in_the_process_is_heard_without_the_store<R: Rig>(rig: R) {
    let leases = Leases::new(Deaf(rig.store()));
    let first = leases.acquire(&lock(), fixed()).await.unwrap();
    let before = first.token();
    let waits = Acquire::waiting(LIMIT);
    let mut waiter = tokio::spawn({
        let (leases, waits) = (leases.clone(), waits.clone());
        async move { leases.acquire_with(&lock(), fixed(), waits).await.map(|lease| lease.token()) }
    });
    assert!(timeout(MOMENT, &mut waiter).await.is_err(), "it is held");
    assert_eq!(first.release().await, Released::Released);
    let token = waiter.await.unwrap().expect("it is told in the process");

    // The double has not one `Leases` but two, and is told nothing.
    rig.forget().await;
    let first = leases.acquire(&lock(), fixed()).await.unwrap();
    let stranger = Leases::new(Deaf(rig.store()));
    let mut waiter = tokio::spawn(async move { stranger.acquire_with(&lock(), fixed(), waits).await.map(drop) });
    assert!(timeout(MOMENT, &mut waiter).await.is_err());
    assert_eq!(first.release().await, Released::Released);
    assert!(timeout(MOMENT, &mut waiter).await.is_err(), "nobody told it");
    assert!(token > before);
    waiter.abort();
}

fn renewed() -> Hold {
    Hold::renewed(LONG)
}

/// A holder and a waiter of one process, on a store whose requests are counted.
async fn holder_and_waiter<S: FencedStore>(
    leases: &Leases<Wire<S>>,
    control: &Control,
    holds: Hold,
    waits: Hold,
) -> (EfficiencyLease, JoinHandle<Result<EfficiencyLease, Error>>) {
    let first = leases.acquire_efficiency(&lock(), holds).await.unwrap();
    let waiter = tokio::spawn({
        let leases = leases.clone();
        async move { leases.acquire_efficiency_with(&lock(), waits, Acquire::waiting(LIMIT)).await }
    });
    control.reached("waiter made", 1).await;
    (first, waiter)
}

pub(crate) async fn an_efficiency_lease_goes_to_the_next_waiter_without_a_trip<R: Rig>(rig: R) {
    let (leases, control) = unhurried(rig.store());
    let (first, waiter) = holder_and_waiter(&leases, &control, renewed(), renewed()).await;
    let token = rig.look().await.token;
    assert_eq!(first.release().await, Released::Released);
    let second = waiter.await.unwrap().unwrap();
    assert!(second.remaining().is_ok());
    assert_eq!(rig.look().await.token, token, "to the store the owner is the same");
    // What it asked for itself is taken back, and that spares the lease that it was handed.
    control.reached("released", 1).await;
    assert!(rig.look().await.held);
    assert_eq!(second.release().await, Released::Released);
    assert!(!rig.look().await.held, "the last one gives the lock back");

    // A fenced lease needs a token of its own for each owner, and so a trip.
    let first = leases.acquire(&lock(), renewed()).await.unwrap();
    let (before, token) = (control.count("released"), first.token().value());
    let waiter = tokio::spawn(async move { leases.acquire_efficiency(&lock(), renewed()).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(first.release().await, Released::Released);
    let next = waiter.await.unwrap().unwrap();
    assert!(rig.look().await.token > Some(token), "the next owner has one of its own");
    // Which is a release of its own, unless that is a step of the acquisition.
    assert_eq!(control.count("released"), before + usize::from(!R::Store::CAPABILITIES.takes_over));
    assert_eq!(next.release().await, Released::Released);
}

/// What is left of one's lease would not be what the other's renewals go by.
pub(crate) async fn a_lease_is_not_handed_on_to_a_hold_of_another_ttl<R: Rig>(rig: R) {
    let longer = Hold::renewed(renewed().ttl() * 3);
    for (from, to, handed_on) in [(renewed(), longer, false), (longer, renewed(), false), (longer, longer, true)] {
        rig.forget().await;
        let (leases, control) = unhurried(rig.store());
        let (first, waiter) = holder_and_waiter(&leases, &control, from, to).await;
        let token = rig.look().await.token;
        assert_eq!(first.release().await, Released::Released);
        let second = waiter.await.unwrap().unwrap();
        assert_eq!(rig.look().await.token == token, handed_on, "{from:?} to {to:?}");
        assert!(second.remaining().unwrap() < to.ttl(), "it believes in no more than it has asked for");
        assert_eq!(second.release().await, Released::Released);
    }
}

pub(crate) async fn a_lease_handed_on_is_renewed_and_released_by_its_new_holder<R: Rig>(rig: R) {
    let ((leases, control), hold) = (hastened(rig.store()), Hold::renewed(SOON));
    let (first, waiter) = holder_and_waiter(&leases, &control, hold, hold).await;
    assert_eq!(first.release().await, Released::Released);
    let second = waiter.await.unwrap().unwrap();
    let before = control.count("renewal done");
    control.reached("renewal done", before + 2).await;
    assert!(second.remaining().is_ok(), "{:?}", second.status());
    rig.expire().await;
    second.lost().await;
    assert!(second.remaining().is_err(), "its own renewals hear that it is lost");
}

pub(crate) async fn handing_on_ends_so_that_other_processes_get_their_turn<R: Rig>(rig: R) {
    const IN_A_ROW: usize = 32;
    let (leases, control) = unhurried(rig.store());
    let mut lease = leases.acquire_efficiency(&lock(), renewed()).await.unwrap();
    for turn in 0..=IN_A_ROW {
        let next = tokio::spawn({
            let leases = leases.clone();
            async move { leases.acquire_efficiency_with(&lock(), renewed(), Acquire::waiting(LIMIT)).await }
        });
        control.reached("waiter made", turn + 1).await;
        let before = rig.look().await.token;
        assert_eq!(lease.release().await, Released::Released);
        lease = next.await.unwrap().unwrap();
        let handed_on = rig.look().await.token == before;
        assert_eq!(handed_on, turn < IN_A_ROW, "turn {turn}");
    }
    assert_eq!(lease.release().await, Released::Released);
}

pub(crate) async fn efficiency_leases_are_held_one_at_a_time<R: Rig>(rig: R) {
    const RIVALS: usize = 8;
    const TURNS: usize = 6;
    // Two processes, so that some turns are handed on and some are not.
    let processes = [leases(&rig), leases(&rig)];
    let inside = Arc::new(AtomicUsize::new(0));
    let rivals: Vec<_> = (0..RIVALS)
        .map(|number| {
            let (leases, inside) = (processes[number % 2].clone(), Arc::clone(&inside));
            tokio::spawn(async move {
                for _ in 0..TURNS {
                    let wait = Acquire::waiting(LONG);
                    let lease = leases.acquire_efficiency_with(&lock(), Hold::renewed(LONG), wait).await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "nobody else is inside");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    assert_eq!(lease.release().await, Released::Released);
                }
            })
        })
        .collect();
    for rival in rivals {
        rival.await.unwrap();
    }
    assert!(!rig.look().await.held);
}

pub(crate) async fn a_store_hears_of_leases_that_nobody_will_release<R: Rig>(rig: R) {
    for (dropped, told) in [(true, 1), (false, 0)] {
        rig.forget().await;
        let (wire, control) = Wire::new(rig.store());
        let lease = Leases::new(wire).acquire(&lock(), fixed()).await.unwrap();
        if dropped {
            drop(lease);
        } else {
            assert_eq!(lease.release().await, Released::Released);
        }
        assert_eq!(control.count("left to expire"), told);
    }
    // A definite no ends it as well.
    rig.forget().await;
    let (leases, control) = hastened(rig.store());
    let lease = leases.acquire(&lock(), Hold::renewed(SOON)).await.unwrap();
    rig.expire().await;
    lease.lost().await;
    control.reached("left to expire", 1).await;
    drop(lease);
    assert_eq!(control.count("left to expire"), 1, "once");
}

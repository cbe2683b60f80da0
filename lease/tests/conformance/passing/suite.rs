use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leastlock_lease::{
    Acquire, Claim, CorrectnessLease, Error, FencedStore, Grant, Hold, LeaseStore, Leases, OwnerNonce, Release,
    Released, Renewal,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::clock::ManualClock;
use crate::holding::doubles::{Mistake, Mistaken};
use crate::rig::Rig;
use crate::wire::{Control, Wire};
use crate::world::{LIMIT, LONG, eventually, fixed, leases, lock, unhurried};

pub(crate) async fn a_claim_takes_over_from_whom_it_comes_after_and_from_nobody_else<R: Rig>(rig: R) {
    let takes_over = R::Store::CAPABILITIES.takes_over;
    assert_eq!(takes_over_from(&rig, rig.store()).await, (takes_over, false));
    rig.forget().await;
    let double = Mistaken::new(&rig, Mistake::TakesOverFromAnyone);
    let (_, from_anyone) = takes_over_from(&rig, double).await;
    assert!(from_anyone, "the double takes the lock from whoever has it");
}

/// Whether it is granted a lock after its owner, and after somebody who has it no more.
async fn takes_over_from<R: Rig>(rig: &R, store: impl FencedStore) -> (bool, bool) {
    let name = lock();
    let [first, second, third] = [(); 3].map(|()| OwnerNonce::random().unwrap());
    let claim = |nonce| Claim::new(&name, nonce, LONG);
    let after = |nonce, owner| {
        let mut claim = claim(nonce);
        claim.after = Some(owner);
        claim
    };
    let Grant::Granted { token, .. } = store.acquire(claim(first)).await.unwrap() else { panic!("the lock is free") };
    let mut owner = (first, token);
    let from_the_owner = match store.acquire(after(second, first)).await.unwrap() {
        Grant::Granted { token: later, .. } => {
            assert!(later > token, "a change of owner raises the token");
            let Grant::Granted { token: same, .. } = store.acquire(claim(second)).await.unwrap() else {
                panic!("repeated, it finds itself owner")
            };
            assert_eq!(same, later);
            assert_eq!(store.renew(claim(first), token).await.unwrap(), Renewal::NotOwner);
            assert_eq!(store.release(claim(first)).await.unwrap(), Release::NotOwner);
            assert!(matches!(store.acquire(claim(first)).await.unwrap(), Grant::Held(_)), "it comes no more");
            // Where there is a queue it stands there again.
            assert_eq!(store.release(claim(first)).await.unwrap(), Release::NotOwner);
            owner = (second, later);
            true
        }
        _ => false,
    };
    let stranger = if from_the_owner { first } else { second };
    let from_a_stranger = matches!(store.acquire(after(third, stranger)).await.unwrap(), Grant::Granted { .. });
    if !from_a_stranger {
        assert!(matches!(store.renew(claim(owner.0), owner.1).await.unwrap(), Renewal::Renewed { .. }));
        assert!(rig.look().await.held);
    }
    (from_the_owner, from_a_stranger)
}

type Waiting = JoinHandle<Result<CorrectnessLease, Error>>;

fn waits<S: FencedStore>(leases: &Leases<S>) -> Waiting {
    let leases = leases.clone();
    tokio::spawn(async move { leases.acquire_with(&lock(), fixed(), Acquire::waiting(LIMIT)).await })
}

/// A holder and one who waits for it, on a store whose requests are counted.
async fn holder_and_waiter<R: Rig>(rig: &R) -> (CorrectnessLease, Waiting, Arc<Control>, Leases<Wire<R::Store>>) {
    let (leases, control) = unhurried(rig.store());
    let first = leases.acquire(&lock(), fixed()).await.unwrap();
    let waiter = waits(&leases);
    control.reached("waiter made", 1).await;
    (first, waiter, control, leases)
}

pub(crate) async fn a_release_is_a_step_of_the_next_ones_acquisition<R: Rig>(rig: R) {
    let (first, waiter, control, _leases) = holder_and_waiter(&rig).await;
    let token = first.token();
    assert_eq!(first.release().await, Released::Released);
    let second = waiter.await.unwrap().unwrap();
    assert!(second.token() > token);
    let alone = usize::from(!R::Store::CAPABILITIES.takes_over);
    assert_eq!(control.count("released"), alone, "{:?}", control.log());
    assert_eq!(rig.look().await.token, Some(second.token().value()));
    assert_eq!(second.release().await, Released::Released);
    assert!(!rig.look().await.held, "the last one gives the lock back");
}

pub(crate) async fn a_lock_that_was_left_to_one_who_is_gone_is_released<R: Rig>(rig: R) {
    let (first, waiter, _control, _leases) = holder_and_waiter(&rig).await;
    let release = tokio::spawn(first.release());
    waiter.abort();
    assert_eq!(release.await.unwrap(), Released::Released);
    drop(waiter.await);
    let next =
        leases(&rig).acquire_with(&lock(), fixed(), Acquire::waiting(LIMIT)).await.expect("nothing is left behind");
    assert_eq!(next.release().await, Released::Released);
}

pub(crate) async fn an_unanswered_takeover_is_found_by_the_next_attempt<R: Rig>(rig: R) {
    let (first, waiter, control, _leases) = holder_and_waiter(&rig).await;
    let token = first.token();
    control.lost_replies.store(1, Ordering::SeqCst);
    let told = timeout(LIMIT, first.release()).await.expect("it does not wait for long");
    // What is not known is not made up.
    assert_ne!(told, Released::NotOwner);
    let second = waiter.await.unwrap().unwrap();
    assert!(second.token() > token);
    assert_eq!(rig.look().await.token, Some(second.token().value()), "one owner, however often it asked");
    assert_eq!(second.release().await, Released::Released);
}

pub(crate) async fn passing_on_ends_so_that_other_processes_get_their_turn<R: Rig>(rig: R) {
    const IN_A_ROW: usize = 32;
    let (mut lease, mut waiter, control, leases) = holder_and_waiter(&rig).await;
    for turn in 0..=IN_A_ROW {
        assert_eq!(lease.release().await, Released::Released);
        lease = waiter.await.unwrap().unwrap();
        let most = if R::Store::CAPABILITIES.takes_over { usize::from(turn == IN_A_ROW) } else { turn + 1 };
        assert_eq!(control.count("released"), most, "turn {turn}");
        waiter = waits(&leases);
        control.reached("waiter made", turn + 2).await;
    }
    assert_eq!(lease.release().await, Released::Released);
    assert_eq!(waiter.await.unwrap().unwrap().release().await, Released::Released);
}

pub(crate) async fn another_process_gets_in_while_one_always_has_waiters<R: Rig>(rig: R) {
    assert!(another_gets_in(&rig, Duration::from_millis(500), 400).await);
    rig.forget().await;
    if R::Store::CAPABILITIES.takes_over {
        // The double counts and has no sense of time.
        assert!(!another_gets_in(&rig, Duration::ZERO, 24).await, "the double never lets go of the lock");
    }
}

/// A process has the lock that another waits for, for as long as `hold` each time, by its own clock; answers whether the other gets it within
/// so many turns.
async fn another_gets_in<R: Rig>(rig: &R, hold: Duration, turns: usize) -> bool {
    let (wire, control) = Wire::new(rig.store());
    let clock = ManualClock::new();
    let leases = Leases::new(wire).clock(clock.clone());
    let mut lease = leases.acquire(&lock(), fixed()).await.unwrap();
    let (wire, others) = Wire::new(rig.store());
    let mut other = waits(&Leases::new(wire));
    others.reached("waiter made", 1).await;
    for turn in 1..=turns {
        let mut waiter = waits(&leases);
        control.reached("waiter made", turn).await;
        clock.jump(hold);
        assert_eq!(lease.release().await, Released::Released);
        tokio::select! {
            got = &mut other => {
                waiter.abort();
                drop(waiter.await);
                assert_eq!(got.unwrap().expect("within its wait").release().await, Released::Released);
                return true;
            }
            got = &mut waiter => lease = got.unwrap().unwrap(),
        }
    }
    other.abort();
    drop(other.await);
    assert_eq!(lease.release().await, Released::Released);
    false
}

pub(crate) async fn a_release_does_not_wait_for_a_waiter_that_is_not_answered<R: Rig>(rig: R) {
    // Whatever is sent for it may take half a minute.
    let hold = Hold::fixed(Duration::from_hours(1));
    let (wire, control) = Wire::new(rig.store());
    let leases = Leases::new(wire);
    let first = leases.acquire(&lock(), hold).await.unwrap();
    let others = leases.clone();
    let waiter = tokio::spawn(async move { others.acquire_with(&lock(), hold, Acquire::waiting(LIMIT)).await });
    control.reached("waiter made", 1).await;
    eventually("no attempt is on its way", async || control.count("acquire sent") == control.count("acquire done"))
        .await;
    Control::close(&control.acquire_gate);
    let sent = control.count("acquire sent");
    control.reached("acquire sent", sent + 1).await;
    let released = timeout(LIMIT / 2, first.release()).await.expect("the waiter's attempt is none of its business");
    assert_eq!(released, Released::Released);
    Control::open(&control.acquire_gate);
    let second = waiter.await.unwrap().unwrap();
    assert_eq!(second.release().await, Released::Released);
}

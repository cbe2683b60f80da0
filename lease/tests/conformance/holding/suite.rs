use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leastlock_lease::{
    Acquire, Claim, Error, FencedStore, FencingToken, FloorRule, Grant, Hold, LeaseStatus, LeaseStore, Leases,
    LockName, LossReason, OwnerNonce, Release, Released, Renewal,
};
use tokio::time::{Instant, timeout};

use super::doubles::{Mistake, Mistaken};
pub(crate) use super::unheard::{
    l7_hanging_acquire_is_repeated_as_well, l7_repeated_acquire_finds_itself_owner_with_the_same_token,
    l10_cancelled_acquire_leaves_nothing_behind, l10_cancelled_waiter_keeps_nobody_from_the_lock,
};
use crate::clock::ManualClock;
use crate::rig::{Rig, Seen};
use crate::wire::{Control, Wire};
use crate::world::{LONG, SOON, eventually, fixed, hastened, leases, lock};

fn mistaken<R: Rig>(rig: &R, mistake: Mistake) -> Mistaken<R> {
    Mistaken::new(rig, mistake)
}

fn token(value: i64) -> FencingToken {
    FencingToken::new(value).unwrap()
}

pub(crate) async fn l1_late_release_spares_the_new_holder<R: Rig>(rig: R) {
    let right = late_release(&rig, rig.store()).await;
    assert_eq!(right, (Released::NotOwner, true));
    rig.forget().await;
    let (_, survives) = late_release(&rig, mistaken(&rig, Mistake::ReleasesAnyone)).await;
    assert!(!survives, "the double takes the new holder's lease away");
}

/// A pauses beyond its TTL, B acquires, A goes on and releases; answers what A was told, and whether B's lease survives.
async fn late_release<R: Rig>(rig: &R, store: impl FencedStore) -> (Released, bool) {
    let leases = Leases::new(store);
    let late = leases.acquire(&lock(), fixed()).await.unwrap();
    rig.expire().await;
    let new = leases.acquire(&lock(), fixed()).await.unwrap();
    let told = late.release().await;
    (told, rig.look().await == Seen { token: Some(new.token().value()), held: true, released: false })
}

pub(crate) async fn l4_unanswered_renewals_give_no_permit_and_end_in_loss<R: Rig>(rig: R) {
    let (hold, one) = (Hold::renewed(SOON), lock());
    let other = LockName::new("report:tenant-8").unwrap();
    tokio::join!(
        unanswered_renewals(&rig, &one, hold, false),
        unanswered_renewals(&rig, &other, hold.permits_while_unconfirmed(), true),
    );
}

async fn unanswered_renewals<R: Rig>(rig: &R, name: &LockName, hold: Hold, permits_meanwhile: bool) {
    let (leases, control) = hastened(rig.store());
    control.renewals_fail.store(true, Ordering::SeqCst);
    let lease = leases.acquire(name, hold).await.unwrap();
    let (early, begun) = (lease.permit().unwrap(), Instant::now());
    let unconfirmed = async || matches!(lease.status(), LeaseStatus::Unconfirmed { .. });
    eventually("unconfirmed", unconfirmed).await;
    let permit = lease.permit();
    assert_eq!(permit.is_ok(), permits_meanwhile, "{permit:?}");
    control.reached("renewal sent", 2).await;
    control.clock.jump(SOON);
    lease.lost().await;
    let lost = lease.permit();
    assert!(matches!(lost, Err(Error::Lost { reason: LossReason::Expired, .. })), "{lost:?}");
    assert!(early.remaining().is_err());
    // Each that fails is followed by a pause of a 24th of the TTL at least.
    let (sent, most) = (control.count("renewal sent"), begun.elapsed().as_millis() / (SOON / 24).as_millis() + 1);
    assert!(u128::try_from(sent).unwrap() <= most, "{sent} renewals were sent, and {most} are allowed");
}

pub(crate) async fn l5_release_waits_for_the_renewal_in_flight<R: Rig>(rig: R) {
    let (leases, control) = hastened(rig.store());
    Control::close(&control.renewal_gate);
    let lease = leases.acquire(&lock(), Hold::renewed(SOON)).await.unwrap();
    control.reached("renewal sent", 1).await;
    let mut release = tokio::spawn(lease.release());
    let waits = timeout(Duration::from_millis(100), &mut release).await.is_err();
    // It waits no longer than the renewal's own time-out.
    let given_up = control.count("renewal given up") > 0;
    assert!(waits || given_up, "released beside a renewal in flight: {:?}", control.log());
    Control::open(&control.renewal_gate);
    assert_eq!(release.await.unwrap(), Released::Released);
    assert!(no_renewal_after_release(&control.log()), "{:?}", control.log());

    // The double releases beside the renewal.
    let (wire, control) = Wire::new(rig.store());
    Control::close(&control.renewal_gate);
    let (wire, name, nonce) = (Arc::new(wire), lock(), OwnerNonce::random().unwrap());
    let claim = Claim::new(&name, nonce, LONG);
    let Ok(Grant::Granted { token, .. }) = wire.acquire(claim).await else { panic!("the lock is free") };
    let (renewing, renewed) = (Arc::clone(&wire), name.clone());
    let renewal = tokio::spawn(async move { renewing.renew(Claim::new(&renewed, nonce, LONG), token).await });
    control.reached("renewal sent", 1).await;
    let _ = wire.release(claim).await.unwrap();
    Control::open(&control.renewal_gate);
    let late = renewal.await.unwrap().unwrap();
    assert_eq!(late, Renewal::NotOwner, "not even such a renewal takes the lock again");
    assert!(!no_renewal_after_release(&control.log()), "the double's renewal comes after its release");
}

fn no_renewal_after_release(log: &[&str]) -> bool {
    let released = log.iter().position(|event| *event == "released").expect("a release");
    log[released..].iter().all(|event| !event.starts_with("renewal"))
}

pub(crate) async fn l6_renewal_never_revives_an_expired_or_stolen_lease<R: Rig>(rig: R) {
    for stolen in [false, true] {
        assert!(refuses_late_renewal(&rig, rig.store(), stolen).await, "stolen: {stolen}");
        let double = mistaken(&rig, Mistake::RenewsByForce);
        assert!(!refuses_late_renewal(&rig, double, stolen).await, "the double revives; stolen: {stolen}");
    }
}

async fn refuses_late_renewal<R: Rig>(rig: &R, store: impl FencedStore, stolen: bool) -> bool {
    rig.forget().await;
    let (name, late, thief) = (lock(), OwnerNonce::random().unwrap(), OwnerNonce::random().unwrap());
    let claim = Claim::new(&name, late, LONG);
    let Grant::Granted { token, ttl: LONG } = store.acquire(claim).await.unwrap() else { panic!("the lock is free") };
    rig.expire().await;
    let mut stolen_token = token;
    if stolen {
        let theft = store.acquire(Claim::new(&name, thief, LONG)).await.unwrap();
        let Grant::Granted { token, ttl: LONG } = theft else { panic!("{theft:?}") };
        stolen_token = token;
    }
    let answer = store.renew(claim, token).await.unwrap();
    let thief_stands = store.renew(Claim::new(&name, thief, LONG), stolen_token).await.unwrap();
    let untouched = rig.look().await.held == stolen;
    let thief_untouched = matches!(thief_stands, Renewal::Renewed { .. }) == stolen;
    answer == Renewal::NotOwner && untouched && thief_untouched
}

pub(crate) async fn l8_repeated_release_spares_a_newer_acquisition<R: Rig>(rig: R) {
    assert_eq!(repeated_release(rig.store()).await, (Release::NotOwner, true));
    let double = repeated_release(mistaken(&rig, Mistake::ReleasesAnyone)).await;
    assert_eq!(double, (Release::Released, false), "the double ends the newer lease");
}

async fn repeated_release(store: impl FencedStore) -> (Release, bool) {
    let (name, older, newer) = (lock(), OwnerNonce::random().unwrap(), OwnerNonce::random().unwrap());
    let (older, newer) = (Claim::new(&name, older, LONG), Claim::new(&name, newer, LONG));
    assert!(matches!(store.acquire(older).await.unwrap(), Grant::Granted { .. }));
    assert_eq!(store.release(older).await.unwrap(), Release::Released);
    assert_eq!(store.release(older).await.unwrap(), Release::Released, "repeated, it answers the same");
    let Grant::Granted { token, .. } = store.acquire(newer).await.unwrap() else { panic!("the lock is free") };
    let repeated = store.release(older).await.unwrap();
    let survives = matches!(store.renew(newer, token).await.unwrap(), Renewal::Renewed { .. });
    let _ = store.release(newer).await.unwrap();
    (repeated, survives)
}

pub(crate) async fn l27_pause_beyond_the_ttl_is_lost_before_any_permit<R: Rig>(rig: R) {
    let clock = ManualClock::new();
    let leases = leases(&rig).clock(clock.clone());
    let lease = leases.acquire(&lock(), Hold::renewed(Duration::from_secs(10))).await.unwrap();
    let early = lease.permit().unwrap();
    clock.jump(Duration::from_secs(3));
    assert!(lease.permit().is_ok());
    clock.jump(Duration::from_secs(12));
    let waking = lease.permit();
    assert!(matches!(waking, Err(Error::Lost { reason: LossReason::Expired, .. })), "{waking:?}");
    assert!(matches!(early.remaining(), Err(Error::Lost { .. })));
}

pub(crate) async fn held_lock_tells_who_holds_it<R: Rig>(rig: R) {
    let leases = leases(&rig);
    let policy = Acquire::default().job("settlement-16");
    let lease = leases.acquire_with(&lock(), fixed(), policy).await.unwrap();
    let owner = lease.permit().unwrap().owner().hash();
    for policy in [Acquire::fail_fast(), Acquire::waiting(Duration::from_millis(50))] {
        let refused = leases.acquire_with(&lock(), fixed(), policy).await;
        let Err(error @ Error::Held { .. }) = refused else { panic!("{refused:?}") };
        assert!(error.is_retryable());
        let Error::Held { name, holder } = error else { unreachable!() };
        assert_eq!((name, holder.owner, holder.token), (lock(), owner, Some(lease.token())));
        assert_eq!(holder.job.as_deref(), Some("settlement-16"));
        assert!(holder.remaining > Duration::ZERO && holder.remaining <= LONG, "{holder}");
        assert!(holder.age < LONG, "{holder}");
    }
}

pub(crate) async fn a_failed_acquire_does_not_wait_for_long_until_it_is_taken_back<R: Rig>(rig: R) {
    let first = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
    for policy in [Acquire::fail_fast(), Acquire::waiting(Duration::ZERO)] {
        let (wire, control) = Wire::new(rig.store());
        Control::close(&control.release_gate);
        let refused = Leases::new(wire).acquire_with(&lock(), fixed(), policy).await;
        assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
        // A sixth of the TTL had not passed.
        assert_eq!((control.count("released"), control.count("left to expire")), (0, 0), "{:?}", control.log());
        Control::open(&control.release_gate);
        control.reached("released", 1).await;
    }
    assert_eq!(first.release().await, Released::Released);
}

/// A duration that is added to a moment is to be as good as for ever.
pub(crate) async fn a_wait_without_a_bound_is_a_wait<R: Rig>(rig: R) {
    let for_ever = || Acquire::waiting(Duration::MAX);
    let hold = fixed().max_hold(Duration::MAX);
    let leases = leases(&rig);
    let first = leases.acquire_with(&lock(), hold, for_ever()).await.unwrap();
    let first = first.cancel_deadline(Duration::MAX);
    let waits = tokio::spawn(async move { leases.acquire_with(&lock(), fixed(), for_ever()).await });
    first.run(async |_| Ok(())).await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap().release().await, Released::Released);
}

pub(crate) async fn waiter_gets_the_lock_when_it_is_released<R: Rig>(rig: R) {
    let leases = leases(&rig);
    let first = leases.acquire(&lock(), fixed()).await.unwrap();
    let token = first.token();
    let waiter = tokio::spawn({
        let leases = leases.clone();
        async move { leases.acquire(&lock(), fixed()).await }
    });
    assert_eq!(first.release().await, Released::Released);
    assert!(waiter.await.unwrap().unwrap().token() > token);
}

pub(crate) async fn spent_nonce_is_not_granted_again<R: Rig>(rig: R) {
    let (store, name, nonce) = (rig.store(), lock(), OwnerNonce::random().unwrap());
    let claim = Claim::new(&name, nonce, LONG);
    let _ = store.acquire(claim).await.unwrap();
    let _ = store.release(claim).await.unwrap();
    let late = store.acquire(claim).await.unwrap();
    assert!(matches!(late, Grant::Held(_)), "an attempt that arrives after its release: {late:?}");
    assert!(!rig.look().await.held);
}

pub(crate) async fn token_rises_with_each_owner_and_above_the_floor<R: Rig>(rig: R) {
    assert!(tokens_rise(rig.store(), R::Store::CAPABILITIES.floor).await);
    rig.forget().await;
    let double = mistaken(&rig, Mistake::KeepsTheToken);
    assert!(!tokens_rise(double, FloorRule::Raised).await, "the double goes on with a token");
}

async fn tokens_rise(store: impl FencedStore, rule: FloorRule) -> bool {
    // Far above whatever a store counts that many share.
    const FAR: i64 = 1 << 50;
    let (leases, mut last) = (Leases::new(store), 0);
    for floor in [None, None, Some(1), Some(40), Some(FAR), None] {
        let policy = Acquire::default().floor(floor.map(token));
        let lease = leases.acquire_with(&lock(), fixed(), policy).await;
        if floor == Some(FAR) && rule == FloorRule::Refused {
            assert!(matches!(lease, Err(Error::TokenBelowFloor { floor, .. }) if floor == token(FAR)), "{lease:?}");
            continue;
        }
        let lease = lease.unwrap();
        let next = lease.token().value();
        assert_eq!(lease.release().await, Released::Released);
        if next <= last.max(floor.unwrap_or(0)) {
            return false;
        }
        last = next;
    }
    true
}

pub(crate) async fn renewal_extends_the_lease_at_the_store_and_keeps_its_token<R: Rig>(rig: R) {
    let (leases, control) = hastened(rig.store());
    Control::close(&control.renewal_gate);
    let lease = leases.acquire(&lock(), Hold::renewed(SOON)).await.unwrap();
    let token = lease.token();
    let rivals = rivals(&rig);
    let remaining = async || {
        let rival = rivals.acquire_with(&lock(), fixed(), Acquire::fail_fast()).await;
        let Err(Error::Held { holder, .. }) = rival else { panic!("{rival:?}") };
        holder.remaining
    };
    let mut low = SOON;
    if let Some(precision) = R::TELLS_THE_TIME_TO {
        // As long as no renewal arrives, what is left becomes less.
        eventually("time passes at the store", async || {
            low = remaining().await;
            low + precision <= SOON
        })
        .await;
    }
    let before = control.count("renewal done");
    Control::open(&control.renewal_gate);
    if R::TELLS_THE_TIME_TO.is_some() {
        eventually("a renewal has extended it", async || remaining().await > low).await;
    }
    control.reached("renewal done", before + 2).await;
    eventually("it is confirmed", async || lease.permit().is_ok()).await;
    let _still_held = remaining().await;
    assert_eq!(rig.look().await.token, Some(token.value()), "a renewal does not change the token");
}

/// Who finds the lock held.
fn rivals<R: Rig>(rig: &R) -> Leases<R::Store> {
    leases(rig)
}

pub(crate) async fn rivals_hold_the_lock_one_at_a_time<R: Rig>(rig: R) {
    const RIVALS: usize = 8;
    const TURNS: usize = 4;
    let (leases, inside) = (leases(&rig), Arc::new(AtomicUsize::new(0)));
    let tokens = Arc::new(Mutex::new(BTreeSet::new()));
    let rivals: Vec<_> = (0..RIVALS)
        .map(|_| {
            let (leases, inside, tokens) = (leases.clone(), Arc::clone(&inside), Arc::clone(&tokens));
            tokio::spawn(async move {
                for _ in 0..TURNS {
                    let lease = leases.acquire_with(&lock(), fixed(), Acquire::waiting(LONG)).await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "nobody else is inside");
                    tokens.lock().unwrap().insert(lease.token().value());
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
    let tokens = std::mem::take(&mut *tokens.lock().unwrap());
    assert_eq!(tokens.len(), RIVALS * TURNS, "each owner had a token of its own");
    assert_eq!(rig.look().await.token, tokens.last().copied());
}

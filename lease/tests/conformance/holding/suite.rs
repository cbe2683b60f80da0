use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leastlock_core::Statement;
use leastlock_lease::{
    Acquire, Claim, Error, FencedStore, FencingToken, Grant, Hold, LeaseStatus, LeaseStore, Leases, LossReason,
    OwnerNonce, Release, Released, Renewal,
};
use leastlock_testkit::{TestDatabase, TestEngine};
use tokio::time::timeout;

use super::doubles::{Mistake, MistakenSql, MistakenStore};
use crate::clock::ManualClock;
use crate::database::{LONG, eventually, expire, fixed, is_released, leases, lock, prepare, store};
use crate::wire::{Control, Wire};

const HELD_BY_SECOND: &str = "SELECT COUNT(*) FROM leastlock_lease WHERE fencing_seq = 2 AND lease_until > acquired_at";

fn mistaken<DB: TestEngine + MistakenSql>(database: &TestDatabase<DB>, mistake: Mistake) -> MistakenStore<DB> {
    MistakenStore { pool: database.pool.clone(), mistake }
}

fn token(value: i64) -> FencingToken {
    FencingToken::new(value).unwrap()
}

pub(crate) async fn l1_late_release_spares_the_new_holder<DB: TestEngine + MistakenSql>(database: TestDatabase<DB>) {
    let database = prepare(database).await;
    let right = late_release(&database, store(&database)).await;
    assert_eq!(right, (Released::NotOwner, true));
    database.execute("DELETE FROM leastlock_lease").await;
    let (_, survives) = late_release(&database, mistaken(&database, Mistake::ReleasesAnyone)).await;
    assert!(!survives, "the double takes the new holder's lease away");
}

/// A pauses beyond its TTL, B acquires, A goes on and releases; answers what A was told, and whether B's lease survives.
async fn late_release<DB: TestEngine>(database: &TestDatabase<DB>, store: impl FencedStore) -> (Released, bool) {
    let leases = Leases::new(store);
    let late = leases.acquire(&lock(), fixed()).await.unwrap();
    expire(database).await;
    let _new = leases.acquire(&lock(), fixed()).await.unwrap();
    let told = late.release().await;
    (told, database.int(HELD_BY_SECOND).await == 1)
}

pub(crate) async fn l4_unanswered_renewals_give_no_permit_and_end_in_loss<DB: TestEngine + MistakenSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    for permits_meanwhile in [false, true] {
        let (wire, control) = Wire::new(store(&database));
        control.renewals_fail.store(true, Ordering::SeqCst);
        let hold = Hold::renewed(Duration::from_millis(2400));
        let hold = if permits_meanwhile { hold.permits_while_unconfirmed() } else { hold };
        let lease = Leases::new(wire).acquire(&lock(), hold).await.unwrap();
        let early = lease.permit().unwrap();
        let unconfirmed = async || matches!(lease.status(), LeaseStatus::Unconfirmed { .. });
        eventually("unconfirmed", unconfirmed).await;
        let permit = lease.permit();
        assert_eq!(permit.is_ok(), permits_meanwhile, "{permit:?}");
        lease.lost().await;
        let lost = lease.permit();
        assert!(matches!(lost, Err(Error::Lost { reason: LossReason::Expired, .. })), "{lost:?}");
        assert!(early.remaining().is_err());
        assert!((2..=12).contains(&control.count("renewal sent")), "{:?}", control.log());
    }
}

pub(crate) async fn l5_release_waits_for_the_renewal_in_flight<DB: TestEngine + MistakenSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    let (wire, control) = Wire::new(store(&database));
    Control::close(&control.renewal_gate);
    let lease = Leases::new(wire).acquire(&lock(), Hold::renewed(Duration::from_secs(6))).await.unwrap();
    control.reached("renewal sent", 1).await;
    let mut release = tokio::spawn(lease.release());
    let waits = timeout(Duration::from_millis(300), &mut release).await.is_err();
    assert!(waits, "released beside a renewal in flight: {:?}", control.log());
    Control::open(&control.renewal_gate);
    assert_eq!(release.await.unwrap(), Released::Released);
    assert!(no_renewal_after_release(&control.log()), "{:?}", control.log());

    // The double releases beside the renewal.
    let (wire, control) = Wire::new(store(&database));
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

pub(crate) async fn l6_renewal_never_revives_an_expired_or_stolen_lease<DB: TestEngine + MistakenSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    for stolen in [false, true] {
        assert!(refuses_late_renewal(&database, store(&database), stolen).await, "stolen: {stolen}");
        let double = mistaken(&database, Mistake::RenewsByForce);
        assert!(!refuses_late_renewal(&database, double, stolen).await, "the double revives; stolen: {stolen}");
    }
}

async fn refuses_late_renewal<DB: TestEngine>(
    database: &TestDatabase<DB>,
    store: impl FencedStore,
    stolen: bool,
) -> bool {
    const STANDING: &str = "SELECT COUNT(*) FROM leastlock_lease WHERE lease_until > acquired_at";
    database.execute("DELETE FROM leastlock_lease").await;
    let (name, late, thief) = (lock(), OwnerNonce::random().unwrap(), OwnerNonce::random().unwrap());
    let claim = Claim::new(&name, late, LONG);
    assert_eq!(store.acquire(claim).await.unwrap(), Grant::Granted { token: token(1), ttl: LONG });
    expire(database).await;
    if stolen {
        let theft = store.acquire(Claim::new(&name, thief, LONG)).await.unwrap();
        assert_eq!(theft, Grant::Granted { token: token(2), ttl: LONG });
    }
    let answer = store.renew(claim, token(1)).await.unwrap();
    let thief_stands = store.renew(Claim::new(&name, thief, LONG), token(2)).await.unwrap();
    let untouched = database.int(STANDING).await == i64::from(stolen);
    let thief_untouched = matches!(thief_stands, Renewal::Renewed { .. }) == stolen;
    answer == Renewal::NotOwner && untouched && thief_untouched
}

pub(crate) async fn l7_repeated_acquire_finds_itself_owner_with_the_same_token<DB: TestEngine + MistakenSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    assert_eq!(acquire_with_lost_replies(store(&database)).await, Some(1));
    assert_eq!(database.int("SELECT fencing_seq FROM leastlock_lease").await, 1);
    database.execute("DELETE FROM leastlock_lease").await;
    let double = mistaken(&database, Mistake::ForgetsItsNonce);
    assert_eq!(acquire_with_lost_replies(double).await, None, "the double waits for itself");
}

async fn acquire_with_lost_replies(store: impl FencedStore) -> Option<i64> {
    let (wire, control) = Wire::new(store);
    control.lost_replies.store(2, Ordering::SeqCst);
    let policy = Acquire::waiting(Duration::from_secs(2));
    let lease = Leases::new(wire).acquire_with(&lock(), fixed(), policy).await.ok()?;
    assert_eq!(control.count("acquire sent"), 3);
    Some(lease.token().value())
}

pub(crate) async fn l7_hanging_acquire_is_repeated_as_well<DB: TestEngine + MistakenSql>(database: TestDatabase<DB>) {
    let database = prepare(database).await;
    let (wire, control) = Wire::new(store(&database));
    control.lost_replies.store(1, Ordering::SeqCst);
    control.lost_replies_hang.store(true, Ordering::SeqCst);
    let lease = Leases::new(wire).acquire(&lock(), Hold::fixed(Duration::from_secs(3))).await.unwrap();
    assert_eq!((lease.token(), control.count("acquire sent")), (token(1), 2));
    let extended = database.int("SELECT COUNT(*) FROM leastlock_lease WHERE updated_at > acquired_at").await;
    assert_eq!(extended, 1, "the repeat extends the lease that it finds");
}

pub(crate) async fn l8_repeated_release_spares_a_newer_acquisition<DB: TestEngine + MistakenSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    assert_eq!(repeated_release(store(&database)).await, (Release::NotOwner, true));
    let double = repeated_release(mistaken(&database, Mistake::ReleasesAnyone)).await;
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

pub(crate) async fn l10_cancelled_acquire_leaves_nothing_behind<DB: TestEngine + MistakenSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    let (wire, control) = Wire::new(store(&database));
    Control::close(&control.acquire_gate);
    let leases = Leases::new(wire);
    let acquire = tokio::spawn(async move { leases.acquire(&lock(), fixed()).await.map(drop) });
    control.reached("acquire sent", 1).await;
    acquire.abort();
    assert!(acquire.await.unwrap_err().is_cancelled());
    Control::open(&control.acquire_gate);
    control.reached("released", 1).await;
    assert!(is_released(&database).await);

    // The double drops the attempt with its caller: what the store then grants belongs to nobody.
    let (name, nonce) = (lock(), OwnerNonce::random().unwrap());
    let granted = store(&database).acquire(Claim::new(&name, nonce, LONG)).await.unwrap();
    drop(granted);
    assert!(!is_released(&database).await);
}

pub(crate) async fn l27_pause_beyond_the_ttl_is_lost_before_any_permit<DB: TestEngine + MistakenSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    let clock = ManualClock::new();
    let leases = leases(&database).clock(clock.clone());
    let lease = leases.acquire(&lock(), Hold::renewed(Duration::from_secs(10))).await.unwrap();
    let early = lease.permit().unwrap();
    clock.jump(Duration::from_secs(3));
    assert!(lease.permit().is_ok());
    clock.jump(Duration::from_secs(12));
    let waking = lease.permit();
    assert!(matches!(waking, Err(Error::Lost { reason: LossReason::Expired, .. })), "{waking:?}");
    assert!(matches!(early.remaining(), Err(Error::Lost { .. })));
}

pub(crate) async fn held_lock_tells_who_holds_it<DB: TestEngine + MistakenSql>(database: TestDatabase<DB>) {
    let database = prepare(database).await;
    let leases = leases(&database);
    let policy = Acquire::default().job("settlement-16");
    let lease = leases.acquire_with(&lock(), fixed(), policy).await.unwrap();
    let owner = lease.permit().unwrap().owner().hash();
    for policy in [Acquire::fail_fast(), Acquire::waiting(Duration::from_millis(50))] {
        let refused = leases.acquire_with(&lock(), fixed(), policy).await;
        let Err(error @ Error::Held { .. }) = refused else { panic!("{refused:?}") };
        assert!(error.is_retryable());
        let Error::Held { name, holder } = error else { unreachable!() };
        assert_eq!((name, holder.owner, holder.token), (lock(), owner, Some(token(1))));
        assert_eq!(holder.job.as_deref(), Some("settlement-16"));
        assert!(holder.remaining > Duration::ZERO && holder.remaining <= LONG, "{holder}");
        assert!(holder.age < LONG, "{holder}");
    }
}

pub(crate) async fn waiter_gets_the_lock_when_it_is_released<DB: TestEngine + MistakenSql>(database: TestDatabase<DB>) {
    let database = prepare(database).await;
    let leases = leases(&database);
    let first = leases.acquire(&lock(), fixed()).await.unwrap();
    let waiter = tokio::spawn({
        let leases = leases.clone();
        async move { leases.acquire(&lock(), fixed()).await }
    });
    assert_eq!(first.release().await, Released::Released);
    assert_eq!(waiter.await.unwrap().unwrap().token(), token(2));
}

pub(crate) async fn spent_nonce_is_not_granted_again<DB: TestEngine + MistakenSql>(database: TestDatabase<DB>) {
    let database = prepare(database).await;
    let (store, name, nonce) = (store(&database), lock(), OwnerNonce::random().unwrap());
    let claim = Claim::new(&name, nonce, LONG);
    let _ = store.acquire(claim).await.unwrap();
    let _ = store.release(claim).await.unwrap();
    let late = store.acquire(claim).await.unwrap();
    assert!(matches!(late, Grant::Held(_)), "an attempt that arrives after its release: {late:?}");
    assert!(is_released(&database).await);
}

pub(crate) async fn token_rises_with_each_owner_and_above_the_floor<DB: TestEngine + MistakenSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    let leases = leases(&database);
    for (floor, expected) in [(None, 1), (None, 2), (Some(1), 3), (Some(40), 41), (None, 42)] {
        let policy = Acquire::default().floor(floor.map(token));
        let lease = leases.acquire_with(&lock(), fixed(), policy).await.unwrap();
        assert_eq!(lease.token(), token(expected));
        assert_eq!(lease.release().await, Released::Released);
    }
}

pub(crate) async fn renewed_lease_outlives_its_ttl<DB: TestEngine + MistakenSql>(database: TestDatabase<DB>) {
    let database = prepare(database).await;
    let (wire, control) = Wire::new(store(&database));
    let lease = Leases::new(wire).acquire(&lock(), Hold::renewed(Duration::from_secs(3))).await.unwrap();
    control.reached("renewal done", 4).await;
    assert!(lease.permit().is_ok(), "{:?}", lease.status());
    let rival = leases(&database).acquire_with(&lock(), fixed(), Acquire::fail_fast()).await;
    assert!(matches!(rival, Err(Error::Held { .. })), "{rival:?}");
    let mut connection = database.pool.acquire().await.unwrap();
    let row = Statement::new("SELECT fencing_seq FROM leastlock_lease").fetch_one::<DB>(&mut connection).await;
    assert_eq!(row.unwrap().int(0).unwrap(), lease.token().value(), "a renewal does not change the token");
}

pub(crate) async fn rivals_hold_the_lock_one_at_a_time<DB: TestEngine + MistakenSql>(database: TestDatabase<DB>) {
    const RIVALS: i64 = 8;
    const TURNS: i64 = 4;
    let database = prepare(database).await;
    let (leases, inside) = (leases(&database), Arc::new(AtomicUsize::new(0)));
    let rivals: Vec<_> = (0..RIVALS)
        .map(|_| {
            let (leases, inside) = (leases.clone(), Arc::clone(&inside));
            tokio::spawn(async move {
                for _ in 0..TURNS {
                    let lease = leases.acquire_with(&lock(), fixed(), Acquire::waiting(LONG)).await.unwrap();
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
    assert_eq!(database.int("SELECT fencing_seq FROM leastlock_lease").await, RIVALS * TURNS);
}

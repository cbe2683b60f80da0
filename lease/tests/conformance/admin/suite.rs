use std::time::Duration;

use leastlock_lease::{
    Acquire, AuditOutcome, CorrectnessLease, Error, Fence, FencingToken, Forced, Hold, Inspect, LeaseStatus, LockName,
    LossReason, MIGRATIONS, Refusal, Released, Seizure, Standing, audit,
};
use leastlock_testkit::TestDatabase;

use super::doubles::Command;
use super::force::{Admin, approval, stale_approval};
use crate::rig::{Rig, Seen};
use crate::world::{A_WRITES, B_WRITES, LIMIT, LONG, VALUE, fixed, leases, lock, write};

fn fence() -> Fence {
    Fence::new("report:tenant-7").unwrap()
}

fn token(value: i64) -> FencingToken {
    FencingToken::new(value).unwrap()
}

async fn seizure<R: Admin>(rig: &R, of: FencingToken) -> Seizure {
    match rig.force(of, &approval()).await.unwrap() {
        Forced::Released(seizure) => seizure,
        other => panic!("{other:?}"),
    }
}

/// Writes in a protected transaction, and tells why it was refused.
async fn writes<R: Rig>(rig: &R, lease: &CorrectnessLease, value: &'static str) -> Option<Refusal> {
    let (database, permit) = (rig.database(), lease.permit().unwrap());
    let mut tx = database.pool.begin().await.unwrap();
    match fence().check(&mut tx, &permit).await {
        Ok(()) => {}
        Err(Error::Refused { refusal, .. }) => return Some(refusal),
        Err(other) => panic!("{other}"),
    }
    write(&mut tx, value).await.unwrap();
    tx.commit().await.unwrap();
    None
}

pub(crate) async fn what_stands_is_shown_in_every_state<R: Admin>(rig: R) {
    let (store, leases) = (rig.store(), leases(&rig));
    assert_eq!(store.inspect(&lock()).await.unwrap(), None, "never held");
    let policy = Acquire::default().job("settlement-16");
    let lease = leases.acquire_with(&lock(), fixed(), policy).await.unwrap();
    let record = store.inspect(&lock()).await.unwrap().unwrap();
    assert_eq!((record.standing, record.name), (Standing::Held, lock()));
    let holder = record.holder;
    assert_eq!(holder.owner, lease.permit().unwrap().owner().hash());
    assert_eq!((holder.token, holder.job.as_deref()), (Some(lease.token()), Some("settlement-16")));
    assert!(holder.age < LONG && holder.remaining > Duration::ZERO && holder.remaining <= LONG, "{holder}");

    rig.expire().await;
    let record = store.inspect(&lock()).await.unwrap();
    let expected = R::KEEPS_ROWS.then_some((Standing::Expired, Duration::ZERO));
    assert_eq!(record.map(|record| (record.standing, record.holder.remaining)), expected);
    let next = leases.acquire(&lock(), fixed()).await.unwrap();
    let (token, owner) = (next.token(), next.permit().unwrap().owner().hash());
    assert_eq!(next.release().await, Released::Released);
    let record = store.inspect(&lock()).await.unwrap().unwrap();
    assert_eq!((record.standing, record.holder.token, record.holder.owner), (Standing::Released, Some(token), owner));
    assert!(record.to_string().contains("is released: owner"), "{record}");
}

pub(crate) async fn held_locks_are_listed_in_order_and_page_by_page<R: Admin>(rig: R) {
    let (store, leases) = (rig.store(), leases(&rig));
    assert_eq!(store.list(None, 10).await.unwrap(), []);
    let names = ["a:2", "a:10", "B:1", "a:1", "free:1"].map(|name| LockName::new(name).unwrap());
    let mut held = Vec::new();
    for name in &names {
        held.push(leases.acquire(name, fixed()).await.unwrap());
    }
    assert_eq!(held.pop().unwrap().release().await, Released::Released);
    // By their bytes.
    let expected = ["B:1", "a:1", "a:10", "a:2"];
    let token = |name: &LockName| held.iter().find(|lease| lease.name() == name).map(CorrectnessLease::token);
    let mut listed = Vec::new();
    loop {
        let page = store.list(listed.last(), 3).await.unwrap();
        assert!(page.iter().all(|record| record.standing == Standing::Held));
        assert!(page.iter().all(|record| record.holder.token == token(&record.name)), "{page:?}");
        let is_last = page.len() < 3;
        listed.extend(page.into_iter().map(|record| record.name));
        if is_last {
            break;
        }
    }
    assert_eq!(listed.iter().map(LockName::as_str).collect::<Vec<_>>(), expected);
}

pub(crate) async fn looking_changes_nothing<R: Admin>(rig: R) {
    let (store, lease) = (rig.store(), leases(&rig).acquire(&lock(), fixed()).await.unwrap());
    for _ in 0..3 {
        let before = store.inspect(&lock()).await.unwrap().unwrap().holder.remaining;
        tokio::time::sleep(Duration::from_millis(5)).await;
        let listed = store.list(None, 10).await.unwrap();
        assert_eq!(listed.len(), 1);
        let after = &listed[0].holder;
        assert_eq!(after.token, Some(lease.token()));
        assert!(after.remaining < before || (!R::KEEPS_ROWS && after.remaining == before), "{before:?} {after}");
    }
    rig.expire().await;
    for _ in 0..3 {
        let standing = store.inspect(&lock()).await.unwrap().map(|record| record.standing);
        assert_eq!(standing, R::KEEPS_ROWS.then_some(Standing::Expired));
        assert_eq!(store.list(None, 10).await.unwrap(), []);
    }
    let next = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
    assert!(next.token() > lease.token());
    assert!(!R::KEEPS_ROWS || next.token() == token(2), "{}", next.token());
}

pub(crate) async fn l17_holder_whose_lock_was_taken_away_finds_lost_and_is_refused<R: Admin>(rig: R) {
    // Renewed at about every other second.
    let renewed = leases(&rig).acquire(&lock(), Hold::renewed(Duration::from_secs(6))).await.unwrap();
    let expected = renewed.token();
    let taken = seizure(&rig, expected).await;
    assert_eq!(taken.name(), &lock());
    assert!(taken.token() > expected, "the token is raised");
    let raised = taken.token();
    assert_eq!(rig.look().await, Seen { token: Some(raised.value()), held: false, released: true });
    let record = rig.store().inspect(&lock()).await.unwrap().unwrap();
    assert_eq!((record.standing, record.holder.owner), (Standing::Released, taken.operation()));
    assert_eq!(record.holder.token, Some(raised));
    renewed.lost().await;
    assert_eq!(renewed.status(), LeaseStatus::Lost { reason: LossReason::NotOwner });
    assert_eq!(renewed.release().await, Released::NotOwner);
    let entries = audit(&rig.database().pool, None, 10).await.unwrap();
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((&entry.name, entry.expected, entry.raised_to), (&lock(), expected, Some(raised)));
    assert_eq!((entry.operation, entry.outcome), (taken.operation(), Some(AuditOutcome::Released)));
    assert_eq!((&*entry.approver, &*entry.reason), (approval().approver(), approval().reason()));
    assert!(entry.approved_until > entry.written_at, "{entry:?}");
}

pub(crate) async fn l17_resource_refuses_a_holder_that_has_not_heard_of_it<R: Admin>(rig: R) {
    let database = rig.database();
    // It is not renewed, so that it never hears of it.
    let old = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
    fence().seal(&database.pool, &old.permit().unwrap()).await.unwrap();
    let seizure = seizure(&rig, old.token()).await;
    fence().seal_forced(&database.pool, &seizure).await.unwrap();
    assert_eq!(writes(&rig, &old, A_WRITES).await, Some(Refusal::Superseded { by: seizure.token() }));
    assert_eq!(old.release().await, Released::NotOwner);

    let new = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
    assert!(new.token() > seizure.token());
    let again = fence().seal_forced(&database.pool, &seizure).await;
    assert!(again.is_ok(), "nobody has sealed above it: {again:?}");
    fence().seal(&database.pool, &new.permit().unwrap()).await.unwrap();
    let late = fence().seal_forced(&database.pool, &seizure).await;
    let superseded = Refusal::Superseded { by: new.token() };
    assert!(matches!(&late, Err(Error::Refused { refusal, .. }) if *refusal == superseded), "{late:?}");
    assert_eq!(writes(&rig, &new, B_WRITES).await, None);
    assert_eq!(database.int(VALUE).await, 2);
}

/// The double: the operator deletes the lock at the store. The next holder gets a token that the resource has seen.
pub(crate) async fn l17_lock_that_was_only_deleted_lets_the_late_holder_write<R: Admin>(rig: R) {
    let database = rig.database();
    let old = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
    fence().seal(&database.pool, &old.permit().unwrap()).await.unwrap();
    rig.forget().await;
    let new = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
    let seal = fence().seal(&database.pool, &new.permit().unwrap()).await;
    assert!(matches!(seal, Err(Error::Refused { refusal: Refusal::OtherOwner { .. }, .. })), "{seal:?}");
    assert_eq!(writes(&rig, &old, A_WRITES).await, None, "the late one passes");
    assert_eq!(database.int(VALUE).await, 1);
    assert_eq!(audit(&database.pool, None, 10).await.unwrap(), [], "and nobody knows who did it");
}

pub(crate) async fn l17_only_the_expected_holder_loses_its_lock<R: Admin>(rig: R) {
    let leases = leases(&rig);
    let gone = rig.force(token(1), &approval()).await.unwrap();
    assert!(matches!(gone, Forced::Changed(None)), "never held: {gone:?}");
    for (command, loses) in [(Command::Right, false), (Command::WithoutComparing, true)] {
        let old = leases.acquire(&lock(), fixed()).await.unwrap();
        let old_token = old.token();
        assert_eq!(old.release().await, Released::Released);
        let new = leases.acquire(&lock(), fixed()).await.unwrap();
        let late = command.force(&rig, old_token, &approval()).await.unwrap();
        assert_eq!(rig.look().await.held, !loses, "{command:?}: {late:?}");
        if command == Command::Right {
            let Forced::Changed(Some(record)) = late else { panic!("{late:?}") };
            assert_eq!((record.standing, record.holder.token), (Standing::Held, Some(new.token())));
            assert_eq!(rig.look().await, Seen { token: Some(new.token().value()), held: true, released: false });
            let outcomes: Vec<_> = audit(&rig.database().pool, None, 10).await.unwrap();
            assert_eq!(outcomes.len(), if R::ATOMIC { 0 } else { 2 });
            assert!(outcomes.iter().all(|entry| entry.outcome == Some(AuditOutcome::Changed)));
        }
        let released = if loses { Released::NotOwner } else { Released::Released };
        assert_eq!(new.release().await, released, "{command:?}");
    }
    let released = rig.force(new_token(&rig).await, &approval()).await.unwrap();
    assert!(matches!(&released, Forced::Changed(Some(_))), "there is nothing to take: {released:?}");
}

async fn new_token<R: Rig>(rig: &R) -> FencingToken {
    token(rig.look().await.token.unwrap())
}

pub(crate) async fn l17_approval_that_is_over_is_refused<R: Admin>(rig: R) {
    // By the double the same command works the day after.
    for (command, loses) in [(Command::Right, false), (Command::WithoutAskingTheTime, true)] {
        let lease = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
        let answer = command.force(&rig, lease.token(), &stale_approval()).await.unwrap();
        assert_eq!(rig.look().await.held, !loses, "{command:?}: {answer:?}");
        if command == Command::Right {
            assert!(matches!(answer, Forced::ApprovalExpired), "{answer:?}");
            assert_eq!(rig.look().await, Seen { token: Some(lease.token().value()), held: true, released: false });
            let entries = audit(&rig.database().pool, None, 10).await.unwrap();
            assert!(entries.iter().all(|entry| entry.outcome == Some(AuditOutcome::ApprovalExpired)), "{entries:?}");
            assert_eq!(entries.len(), usize::from(!R::ATOMIC));
        }
        let released = if loses { Released::NotOwner } else { Released::Released };
        assert_eq!(lease.release().await, released, "{command:?}");
    }
}

pub(crate) async fn l17_nothing_is_released_that_cannot_be_audited<R: Admin>(rig: R) {
    let database = rig.database();
    let lease = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
    database.execute("ALTER TABLE leastlock_audit RENAME TO hidden").await;
    // The double has nowhere to say what it has done.
    for (command, held) in [(Command::Right, true), (Command::AuditLast, false)] {
        let answer = command.force(&rig, lease.token(), &approval()).await;
        assert_eq!(rig.look().await.held, held, "{command:?}: {answer:?}");
        if command == Command::Right {
            assert!(matches!(answer, Err(Error::Database { .. })), "{answer:?}");
            assert_eq!(rig.look().await, Seen { token: Some(lease.token().value()), held: true, released: false });
        }
    }
}

pub(crate) async fn l17_waiter_gets_a_lock_that_was_taken_away<R: Admin>(rig: R) {
    let old = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
    let others = leases(&rig);
    let waiter = tokio::spawn(async move {
        others.acquire_with(&lock(), fixed(), Acquire::waiting(LIMIT)).await.map(|lease| lease.token())
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let seizure = seizure(&rig, old.token()).await;
    assert!(waiter.await.unwrap().unwrap() > seizure.token());
}

pub(crate) async fn the_audit_is_read_page_by_page<R: Admin>(rig: R) {
    let mut expected = Vec::new();
    for _ in 0..5 {
        let lease = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
        expected.insert(0, lease.token());
        let _ = seizure(&rig, lease.token()).await;
    }
    let (mut read, mut before) = (Vec::new(), None);
    loop {
        let page = audit(&rig.database().pool, before, 2).await.unwrap();
        before = page.last().map(|entry| entry.id);
        read.extend(page.iter().map(|entry| entry.expected));
        if page.len() < 2 {
            break;
        }
    }
    assert_eq!(read, expected);
    // What the tables were before the audit came can be brought to where they are.
    let other = TestDatabase::<R::DB>::create().await.with(&MIGRATIONS).await;
    assert_eq!(audit(&other.pool, None, 2).await.unwrap(), []);
}

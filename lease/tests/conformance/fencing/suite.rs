use std::time::Duration;

use leastlock_lease::{Acquire, CorrectnessLease, Error, Fence, LossReason, Period, Permit, Refusal, Released};
use sqlx::Acquire as _;
use tokio::time::timeout;

use super::doubles::Guard;
pub(crate) use super::history::generations_never_go_back_in_the_history_of_a_resource;
use crate::clock::ManualClock;
use crate::rig::Rig;
use crate::world::{A_WRITES, B_WRITES, LIMIT, LONG, VALUE, fixed, leases, lock, write};

pub(super) fn fence() -> Fence {
    Fence::new("report:tenant-7").unwrap()
}

async fn acquire<R: Rig>(rig: &R) -> CorrectnessLease {
    leases(rig).acquire(&lock(), fixed()).await.unwrap()
}

/// A seals and is paused beyond its TTL; B acquires.
async fn paused_and_new<R: Rig>(rig: &R) -> (CorrectnessLease, CorrectnessLease) {
    rig.forget().await;
    for statement in ["DELETE FROM leastlock_fence", "DELETE FROM leastlock_fence_gate"] {
        rig.database().execute(statement).await;
    }
    let late = acquire(rig).await;
    fence().seal(&rig.database().pool, &late.permit().unwrap()).await.unwrap();
    rig.expire().await;
    let new = acquire(rig).await;
    (late, new)
}

/// Writes under `guard`; answers whether it was let through.
async fn writes<R: Rig>(rig: &R, guard: Guard, lease: &CorrectnessLease, statement: &'static str) -> bool {
    let permit = lease.permit().expect("it believes that it holds");
    let mut tx = rig.database().pool.begin().await.unwrap();
    if !guard.passes(&fence(), &rig.database().pool, &mut tx, &permit).await {
        return false;
    }
    write(&mut tx, statement).await.unwrap();
    tx.commit().await.unwrap();
    true
}

pub(crate) async fn l2_late_write_is_refused_by_the_fenced_row_only<R: Rig>(rig: R) {
    for (guard, last_writer) in [(Guard::Right, 2), (Guard::Absent, 1)] {
        let (late, new) = paused_and_new(&rig).await;
        fence().seal(&rig.database().pool, &new.permit().unwrap()).await.unwrap();
        assert!(writes(&rig, guard, &new, B_WRITES).await);
        assert_eq!(writes(&rig, guard, &late, A_WRITES).await, last_writer == 1);
        assert_eq!(rig.database().int(VALUE).await, last_writer, "{guard:?}");
    }
}

pub(crate) async fn l3_late_write_is_refused_once_the_new_holder_has_sealed<R: Rig>(rig: R) {
    let (late, new) = paused_and_new(&rig).await;
    assert!(writes(&rig, Guard::Right, &late, A_WRITES).await, "before the seal nothing tells the row");
    fence().seal(&rig.database().pool, &new.permit().unwrap()).await.unwrap();
    assert!(!writes(&rig, Guard::Right, &late, A_WRITES).await, "B has sealed, and not written yet");

    let (late, new) = paused_and_new(&rig).await;
    fence().seal(&rig.database().pool, &new.permit().unwrap()).await.unwrap();
    assert!(writes(&rig, Guard::Absent, &late, A_WRITES).await, "the double lets it through");
}

pub(crate) async fn l3_open_checked_transaction_ends_before_the_seal<R: Rig>(rig: R) {
    assert_eq!(last_of_overlapping_writers(&rig, Guard::Right).await, 2);
    let double = last_of_overlapping_writers(&rig, Guard::BesideTheTransaction).await;
    assert_eq!(double, 1, "the double lets a write in after the seal");
}

#[cfg(feature = "postgres")]
pub(crate) async fn l3_check_without_the_share_lock_lets_a_zombie_through<R: Rig>(rig: R) {
    assert_eq!(last_of_overlapping_writers(&rig, Guard::Right).await, 2);
    assert_eq!(last_of_overlapping_writers(&rig, Guard::WithoutLock).await, 1, "the double's zombie comes through");
}

/// A has passed its check and not written yet when B seals; B writes as soon as it has sealed. Answers whose value stays.
async fn last_of_overlapping_writers<R: Rig>(rig: &R, guard: Guard) -> i64 {
    let (late, new) = paused_and_new(rig).await;
    let (permit, new_permit) = (late.permit().unwrap(), new.permit().unwrap());
    let mut tx = rig.database().pool.begin().await.unwrap();
    assert!(guard.passes(&fence(), &rig.database().pool, &mut tx, &permit).await);
    let pool = rig.database().pool.clone();
    let mut seal = tokio::spawn(async move { fence().seal(&pool, &new_permit).await });
    // A seal that must wait cannot be done, however long this is; one that need not is given the time it takes.
    let patience = if guard == Guard::Right { Duration::from_millis(300) } else { LIMIT };
    let sealed_meanwhile = timeout(patience, &mut seal).await;
    if let Ok(sealed) = &sealed_meanwhile {
        assert!(sealed.is_ok());
        assert!(writes(rig, guard, &new, B_WRITES).await);
    }
    write(&mut tx, A_WRITES).await.unwrap();
    tx.commit().await.unwrap();
    if sealed_meanwhile.is_err() {
        timeout(LIMIT, seal).await.expect("the way is free").unwrap().unwrap();
        assert!(writes(rig, guard, &new, B_WRITES).await);
    }
    rig.database().int(VALUE).await
}

pub(crate) async fn l20_equal_token_of_another_owner_is_refused<R: Rig>(rig: R) {
    let sealed = acquire(&rig).await;
    fence().seal(&rig.database().pool, &sealed.permit().unwrap()).await.unwrap();
    rig.forget().await;
    let twin = acquire(&rig).await;
    assert_eq!(sealed.token(), twin.token(), "the restored store issues the number again");

    let owner = sealed.permit().unwrap().owner().hash();
    let seal = fence().seal(&rig.database().pool, &twin.permit().unwrap()).await;
    assert!(
        matches!(seal, Err(Error::Refused { refusal: Refusal::OtherOwner { owner: found }, .. }) if found == owner)
    );
    assert!(!writes(&rig, Guard::Right, &twin, B_WRITES).await);
    assert!(writes(&rig, Guard::Right, &sealed, A_WRITES).await, "the owner whose seal it is goes on");
    assert!(writes(&rig, Guard::NumberOnly, &twin, B_WRITES).await, "the double takes one for the other");

    assert_eq!(twin.release().await, Released::Released);
    let floor = fence().generation(&rig.database().pool).await.unwrap();
    let policy = Acquire::default().floor(floor);
    let above = leases(&rig).acquire_with(&lock(), fixed(), policy).await.unwrap();
    fence().seal(&rig.database().pool, &above.permit().unwrap()).await.unwrap();
    assert!(writes(&rig, Guard::Right, &above, B_WRITES).await);
    assert!(!writes(&rig, Guard::Right, &sealed, A_WRITES).await);
}

pub(crate) async fn l23_one_permit_serves_many_transactions_and_an_operation_id_makes_one_of_them_count<R: Rig>(
    rig: R,
) {
    rig.database().execute("CREATE TABLE operation (id BIGINT PRIMARY KEY)").await;
    let lease = acquire(&rig).await;
    let permit = lease.permit().unwrap();
    fence().seal(&rig.database().pool, &permit).await.unwrap();
    for (how, after_a_commit, after_a_roll_back) in [
        // Both pass the check: a fence is no deduplication, and this double takes it for one.
        (OperationId::None, 20, 10),
        (OperationId::InTheSameTransaction, 10, 10),
        // The double that notes the operation first loses it to a crash in between.
        (OperationId::CommittedBefore, 10, 0),
    ] {
        assert_eq!(run_twice(&rig, &permit, how, Ends::Committed).await, after_a_commit, "{how:?}");
        assert_eq!(run_twice(&rig, &permit, how, Ends::RolledBack).await, after_a_roll_back, "{how:?}");
    }
}

/// Where the operation's identifier is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OperationId {
    None,
    InTheSameTransaction,
    CommittedBefore,
}

/// How the first run ends; nobody is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Committed,
    RolledBack,
}

/// `balance = balance + 10` under one permit, and again because nobody knows how the first run ended; answers the balance.
async fn run_twice<R: Rig>(rig: &R, permit: &Permit, how: OperationId, first: Ends) -> i64 {
    rig.database().execute("UPDATE protected SET value = 0").await;
    rig.database().execute("DELETE FROM operation").await;
    for ends in [first, Ends::Committed] {
        let pool = &rig.database().pool;
        if how == OperationId::CommittedBefore {
            let mut before = pool.begin().await.unwrap();
            if write(&mut before, NOTE).await.is_err() {
                continue;
            }
            before.commit().await.unwrap();
        }
        let mut tx = pool.begin().await.unwrap();
        fence().check(&mut tx, permit).await.expect("the permit serves any number of transactions");
        if how == OperationId::InTheSameTransaction && write(&mut tx, NOTE).await.is_err() {
            continue;
        }
        write(&mut tx, "UPDATE protected SET value = value + 10").await.unwrap();
        match ends {
            Ends::Committed => tx.commit().await.unwrap(),
            Ends::RolledBack => tx.rollback().await.unwrap(),
        }
    }
    rig.database().int(VALUE).await
}

const NOTE: &str = "INSERT INTO operation VALUES (1)";

pub(crate) async fn l2_protected_transaction_is_refused_to_a_late_holder<R: Rig>(rig: R) {
    let (late, new) = paused_and_new(&rig).await;
    let pool = &rig.database().pool;
    let writes = async |lease: &CorrectnessLease, statement: &'static str| {
        let mut tx = fence().begin(pool, &lease.permit().unwrap()).await?;
        write(&mut tx, statement).await.unwrap();
        tx.commit().await
    };
    writes(&late, A_WRITES).await.expect("before the seal nothing tells the row");
    fence().seal(pool, &new.permit().unwrap()).await.unwrap();
    writes(&new, B_WRITES).await.unwrap();
    let refused = writes(&late, A_WRITES).await;
    assert!(matches!(refused, Err(Error::Refused { refusal: Refusal::Superseded { .. }, .. })), "{refused:?}");
    assert_eq!(rig.database().int(VALUE).await, 2);
    // Dropped, it rolls back.
    let mut tx = fence().begin(pool, &new.permit().unwrap()).await.unwrap();
    write(&mut tx, A_WRITES).await.unwrap();
    drop(tx);
    // As soon as the connection is back: the double of it is a transaction that nobody ends.
    writes(&new, "UPDATE protected SET value = value + 1").await.unwrap();
    assert_eq!(rig.database().int(VALUE).await, 3);
}

pub(crate) async fn limits_that_no_server_takes_are_as_good_as_none<R: Rig>(rig: R) {
    let fence = Fence::new("report:tenant-7").unwrap().idle_timeout(Duration::MAX).seal_limit(Duration::MAX);
    let (pool, lease) = (&rig.database().pool, leases(&rig).acquire(&lock(), fixed()).await.unwrap());
    let permit = lease.permit().unwrap();
    fence.seal(pool, &permit).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    fence.check(&mut tx, &permit).await.unwrap();
    tx.rollback().await.unwrap();
    fence.begin(pool, &permit).await.unwrap().commit().await.unwrap();
    assert_eq!(Period::forget(pool, Duration::MAX, 1).await.unwrap(), 0);
}

pub(crate) async fn older_generation_cannot_seal<R: Rig>(rig: R) {
    let (late, new) = paused_and_new(&rig).await;
    let permit = new.permit().unwrap();
    fence().seal(&rig.database().pool, &permit).await.unwrap();
    fence().seal(&rig.database().pool, &permit).await.expect("sealing again changes nothing");
    let seal = fence().seal(&rig.database().pool, &late.permit().unwrap()).await;
    let Err(Error::Refused { refusal: Refusal::Superseded { by }, .. }) = seal else { panic!("{seal:?}") };
    assert_eq!(by, new.token());
    assert_eq!(fence().generation(&rig.database().pool).await.unwrap(), Some(new.token()));
}

pub(crate) async fn refused_transaction_cannot_commit<R: Rig>(rig: R) {
    let (late, new) = paused_and_new(&rig).await;
    let unsealed = new.permit().unwrap();
    let sealed = late.permit().unwrap();
    for late_refused in [false, true] {
        if late_refused {
            fence().seal(&rig.database().pool, &unsealed).await.unwrap();
        }
        let permit = if late_refused { &sealed } else { &unsealed };
        let mut tx = rig.database().pool.begin().await.unwrap();
        write(&mut tx, A_WRITES).await.unwrap();
        let check = fence().check(&mut tx, permit).await;
        let Err(Error::Refused { refusal, .. }) = check else { panic!("{check:?}") };
        assert_eq!(refusal == Refusal::NotSealed, !late_refused, "{refusal}");
        // Whoever overlooks the error: one of the two fails, or the commit rolls back.
        let _ = write(&mut tx, A_WRITES).await;
        let _ = tx.commit().await;
        assert_eq!(rig.database().int(VALUE).await, 0);
    }
    // The double: a refusal that only says so.
    let mut tx = rig.database().pool.begin().await.unwrap();
    assert!(!Guard::BesideTheTransaction.passes(&fence(), &rig.database().pool, &mut tx, &sealed).await);
    write(&mut tx, A_WRITES).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(rig.database().int(VALUE).await, 1);
}

pub(crate) async fn check_inside_of_a_savepoint_is_refused<R: Rig>(rig: R) {
    let (late, new) = paused_and_new(&rig).await;
    fence().seal(&rig.database().pool, &new.permit().unwrap()).await.unwrap();
    for lease in [&late, &new] {
        let mut tx = rig.database().pool.begin().await.unwrap();
        let mut savepoint = tx.begin().await.unwrap();
        let check = fence().check(&mut savepoint, &lease.permit().unwrap()).await;
        assert!(matches!(check, Err(Error::Savepoint { .. })), "{check:?}");
        // Whoever overlooks the error: what was done inside is not kept.
        let _ = write(&mut savepoint, A_WRITES).await;
        let _ = savepoint.commit().await;
        let _ = tx.commit().await;
        assert_eq!(rig.database().int(VALUE).await, 0);
    }
    let mut tx = rig.database().pool.begin().await.unwrap();
    fence().check(&mut tx, &new.permit().unwrap()).await.unwrap();
    let mut savepoint = tx.begin().await.unwrap();
    write(&mut savepoint, B_WRITES).await.unwrap();
    savepoint.commit().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(rig.database().int(VALUE).await, 2, "one that was set after the check is no matter");
}

#[cfg(feature = "postgres")]
pub(crate) async fn l3_check_inside_of_a_savepoint_would_let_a_zombie_through<R: Rig>(rig: R) {
    for (guard, last_writer) in [(Guard::Right, 2), (Guard::LockOnly, 1)] {
        let (late, new) = paused_and_new(&rig).await;
        let pool = &rig.database().pool;
        let mut tx = pool.begin().await.unwrap();
        let mut savepoint = tx.begin().await.unwrap();
        let passes = match guard {
            Guard::Right => fence().check(&mut savepoint, &late.permit().unwrap()).await.is_ok(),
            double => double.passes(&fence(), pool, &mut savepoint, &late.permit().unwrap()).await,
        };
        savepoint.rollback().await.unwrap();
        let permit = new.permit().unwrap();
        timeout(LIMIT, fence().seal(pool, &permit)).await.expect("nothing holds the guard row any more").unwrap();
        assert!(writes(&rig, guard, &new, B_WRITES).await);
        // It has passed in the savepoint, and has no reason to ask again.
        if passes {
            write(&mut tx, A_WRITES).await.unwrap();
            tx.commit().await.unwrap();
        }
        assert_eq!(rig.database().int(VALUE).await, last_writer, "{guard:?}");
    }
}

pub(crate) async fn permit_past_its_deadline_is_refused_before_the_database_is_asked<R: Rig>(rig: R) {
    let clock = ManualClock::new();
    let lease = leases(&rig).clock(clock.clone()).acquire(&lock(), fixed()).await.unwrap();
    let permit = lease.permit().unwrap();
    fence().seal(&rig.database().pool, &permit).await.unwrap();
    // Were the database asked, it would say that the table is not there.
    rig.database().execute("DROP TABLE leastlock_fence").await;
    clock.jump(LONG);
    let mut tx = rig.database().pool.begin().await.unwrap();
    let check = fence().check(&mut tx, &permit).await;
    let expired = Refusal::Lost { reason: LossReason::Expired };
    assert!(matches!(&check, Err(Error::Refused { refusal, .. }) if *refusal == expired), "{check:?}");
    let seal = fence().seal(&rig.database().pool, &permit).await;
    assert!(matches!(seal, Err(Error::Lost { .. })), "{seal:?}");
}

#[cfg(feature = "postgres")]
pub(crate) async fn a_check_never_loosens_a_stricter_idle_timeout<R: Rig>(rig: R) {
    let lease = acquire(&rig).await;
    let permit = lease.permit().unwrap();
    fence().seal(&rig.database().pool, &permit).await.unwrap();
    for (set, expected) in [("0", 1), ("1h", 1), ("20s", 0), ("20000ms", 0)] {
        let set = match set {
            "0" => "SET LOCAL idle_in_transaction_session_timeout = 0",
            "1h" => "SET LOCAL idle_in_transaction_session_timeout = '1h'",
            "20s" => "SET LOCAL idle_in_transaction_session_timeout = '20s'",
            _ => "SET LOCAL idle_in_transaction_session_timeout = '20000ms'",
        };
        let mut tx = rig.database().pool.begin().await.unwrap();
        write(&mut tx, set).await.unwrap();
        fence().check(&mut tx, &permit).await.unwrap();
        let lease_ttl = "SELECT (current_setting('idle_in_transaction_session_timeout') = '1min')::int::bigint";
        let row =
            <R::DB as leastlock_core::Dialect>::fetch_query(&mut tx, sqlx::query(lease_ttl)).await.unwrap().unwrap();
        assert_eq!(row.int(0).unwrap(), expected, "{set}");
    }
}

#[cfg(feature = "postgres")]
pub(crate) async fn stricter_isolation_fails_instead_of_passing_an_old_snapshot<R: Rig>(rig: R) {
    for level in [
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ] {
        let (late, new) = paused_and_new(&rig).await;
        let mut tx = rig.database().pool.begin().await.unwrap();
        write(&mut tx, level).await.unwrap();
        <R::DB as leastlock_core::Dialect>::fetch_query(&mut tx, sqlx::query(VALUE)).await.unwrap();
        fence().seal(&rig.database().pool, &new.permit().unwrap()).await.unwrap();
        let check = fence().check(&mut tx, &late.permit().unwrap()).await;
        let error = check.expect_err("its snapshot still has the old generation");
        assert!(matches!(error, Error::Refused { .. } | Error::Database { retryable: true, .. }), "{level}: {error:?}");
    }
}

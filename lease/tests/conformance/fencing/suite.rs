use std::time::Duration;

use leastlock_lease::{Acquire, CorrectnessLease, Error, Fence, LeaseSql, LossReason, Refusal, Released};
use leastlock_testkit::{TestDatabase, TestEngine};
use tokio::time::timeout;

use super::doubles::Guard;
pub(crate) use super::history::generations_never_go_back_in_the_history_of_a_resource;
use crate::clock::ManualClock;
use crate::database::{A_WRITES, B_WRITES, LIMIT, LONG, VALUE, expire, fixed, leases, lock, prepare, write};

pub(super) fn fence() -> Fence {
    Fence::new("report:tenant-7").unwrap()
}

async fn acquire<DB: TestEngine + LeaseSql>(database: &TestDatabase<DB>) -> CorrectnessLease {
    leases(database).acquire(&lock(), fixed()).await.unwrap()
}

/// A seals and is paused beyond its TTL; B acquires.
async fn paused_and_new<DB: TestEngine + LeaseSql>(
    database: &TestDatabase<DB>,
) -> (CorrectnessLease, CorrectnessLease) {
    for statement in ["DELETE FROM leastlock_lease", "DELETE FROM leastlock_fence", "DELETE FROM leastlock_fence_gate"]
    {
        database.execute(statement).await;
    }
    let late = acquire(database).await;
    fence().seal(&database.pool, &late.permit().unwrap()).await.unwrap();
    expire(database).await;
    let new = acquire(database).await;
    (late, new)
}

/// Writes under `guard`; answers whether it was let through.
async fn writes<DB: TestEngine + LeaseSql>(
    database: &TestDatabase<DB>,
    guard: Guard,
    lease: &CorrectnessLease,
    statement: &'static str,
) -> bool {
    let permit = lease.permit().expect("it believes that it holds");
    let mut tx = database.pool.begin().await.unwrap();
    if !guard.passes(&fence(), &database.pool, &mut tx, &permit).await {
        return false;
    }
    write(&mut tx, statement).await.unwrap();
    tx.commit().await.unwrap();
    true
}

pub(crate) async fn l2_late_write_is_refused_by_the_fenced_row_only<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    for (guard, last_writer) in [(Guard::Right, 2), (Guard::Absent, 1)] {
        let (late, new) = paused_and_new(&database).await;
        fence().seal(&database.pool, &new.permit().unwrap()).await.unwrap();
        assert!(writes(&database, guard, &new, B_WRITES).await);
        assert_eq!(writes(&database, guard, &late, A_WRITES).await, last_writer == 1);
        assert_eq!(database.int(VALUE).await, last_writer, "{guard:?}");
    }
}

pub(crate) async fn l3_late_write_is_refused_once_the_new_holder_has_sealed<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    let (late, new) = paused_and_new(&database).await;
    assert!(writes(&database, Guard::Right, &late, A_WRITES).await, "before the seal nothing tells the row");
    fence().seal(&database.pool, &new.permit().unwrap()).await.unwrap();
    assert!(!writes(&database, Guard::Right, &late, A_WRITES).await, "B has sealed, and not written yet");

    let (late, new) = paused_and_new(&database).await;
    fence().seal(&database.pool, &new.permit().unwrap()).await.unwrap();
    assert!(writes(&database, Guard::Absent, &late, A_WRITES).await, "the double lets it through");
}

pub(crate) async fn l3_open_checked_transaction_ends_before_the_seal<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    assert_eq!(last_of_overlapping_writers(&database, Guard::Right).await, 2);
    let double = last_of_overlapping_writers(&database, Guard::BesideTheTransaction).await;
    assert_eq!(double, 1, "the double lets a write in after the seal");
}

#[cfg(feature = "postgres")]
pub(crate) async fn l3_check_without_the_share_lock_lets_a_zombie_through<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    assert_eq!(last_of_overlapping_writers(&database, Guard::Right).await, 2);
    assert_eq!(
        last_of_overlapping_writers(&database, Guard::WithoutLock).await,
        1,
        "the double's zombie comes through"
    );
}

/// A has passed its check and not written yet when B seals; B writes as soon as it has sealed. Answers whose value stays.
async fn last_of_overlapping_writers<DB: TestEngine + LeaseSql>(database: &TestDatabase<DB>, guard: Guard) -> i64 {
    let (late, new) = paused_and_new(database).await;
    let (permit, new_permit) = (late.permit().unwrap(), new.permit().unwrap());
    let mut tx = database.pool.begin().await.unwrap();
    assert!(guard.passes(&fence(), &database.pool, &mut tx, &permit).await);
    let pool = database.pool.clone();
    let mut seal = tokio::spawn(async move { fence().seal(&pool, &new_permit).await });
    // A seal that must wait cannot be done, however long this is; one that need not is given the time it takes.
    let patience = if guard == Guard::Right { Duration::from_secs(1) } else { LIMIT };
    let sealed_meanwhile = timeout(patience, &mut seal).await;
    if let Ok(sealed) = &sealed_meanwhile {
        assert!(sealed.is_ok());
        assert!(writes(database, guard, &new, B_WRITES).await);
    }
    write(&mut tx, A_WRITES).await.unwrap();
    tx.commit().await.unwrap();
    if sealed_meanwhile.is_err() {
        timeout(LIMIT, seal).await.expect("the way is free").unwrap().unwrap();
        assert!(writes(database, guard, &new, B_WRITES).await);
    }
    database.int(VALUE).await
}

pub(crate) async fn l20_equal_token_of_another_owner_is_refused<DB: TestEngine + LeaseSql>(database: TestDatabase<DB>) {
    let database = prepare(database).await;
    let sealed = acquire(&database).await;
    fence().seal(&database.pool, &sealed.permit().unwrap()).await.unwrap();
    database.execute("DELETE FROM leastlock_lease").await;
    let twin = acquire(&database).await;
    assert_eq!(sealed.token(), twin.token(), "the restored store issues the number again");

    let owner = sealed.permit().unwrap().owner().hash();
    let seal = fence().seal(&database.pool, &twin.permit().unwrap()).await;
    assert!(
        matches!(seal, Err(Error::Refused { refusal: Refusal::OtherOwner { owner: found }, .. }) if found == owner)
    );
    assert!(!writes(&database, Guard::Right, &twin, B_WRITES).await);
    assert!(writes(&database, Guard::Right, &sealed, A_WRITES).await, "the owner whose seal it is goes on");
    assert!(writes(&database, Guard::NumberOnly, &twin, B_WRITES).await, "the double takes one for the other");

    assert_eq!(twin.release().await, Released::Released);
    let floor = fence().generation(&database.pool).await.unwrap();
    let policy = Acquire::default().floor(floor);
    let above = leases(&database).acquire_with(&lock(), fixed(), policy).await.unwrap();
    fence().seal(&database.pool, &above.permit().unwrap()).await.unwrap();
    assert!(writes(&database, Guard::Right, &above, B_WRITES).await);
    assert!(!writes(&database, Guard::Right, &sealed, A_WRITES).await);
}

pub(crate) async fn l23_one_permit_serves_many_transactions<DB: TestEngine + LeaseSql>(database: TestDatabase<DB>) {
    const ADD: &str = "UPDATE protected SET value = value + 10";
    const ADD_ONCE: &str = "INSERT INTO operation VALUES (1)";
    let database = prepare(database).await;
    database.execute("CREATE TABLE operation (id BIGINT PRIMARY KEY)").await;
    let lease = acquire(&database).await;
    let permit = lease.permit().unwrap();
    fence().seal(&database.pool, &permit).await.unwrap();
    for _ in 0..2 {
        assert!(writes(&database, Guard::Right, &lease, ADD).await);
    }
    assert_eq!(database.int(VALUE).await, 20, "a fence is no deduplication");
    let mut applied = Vec::new();
    for _ in 0..2 {
        let mut tx = database.pool.begin().await.unwrap();
        fence().check(&mut tx, &permit).await.unwrap();
        let first = write(&mut tx, ADD_ONCE).await.is_ok();
        if first {
            write(&mut tx, ADD).await.unwrap();
            tx.commit().await.unwrap();
        }
        applied.push(first);
    }
    assert_eq!((applied, database.int(VALUE).await), (vec![true, false], 30));
}

pub(crate) async fn older_generation_cannot_seal<DB: TestEngine + LeaseSql>(database: TestDatabase<DB>) {
    let database = prepare(database).await;
    let (late, new) = paused_and_new(&database).await;
    let permit = new.permit().unwrap();
    fence().seal(&database.pool, &permit).await.unwrap();
    fence().seal(&database.pool, &permit).await.expect("sealing again changes nothing");
    let seal = fence().seal(&database.pool, &late.permit().unwrap()).await;
    let Err(Error::Refused { refusal: Refusal::Superseded { by }, .. }) = seal else { panic!("{seal:?}") };
    assert_eq!(by, new.token());
    assert_eq!(fence().generation(&database.pool).await.unwrap(), Some(new.token()));
}

pub(crate) async fn refused_transaction_cannot_commit<DB: TestEngine + LeaseSql>(database: TestDatabase<DB>) {
    let database = prepare(database).await;
    let (late, new) = paused_and_new(&database).await;
    let unsealed = new.permit().unwrap();
    let sealed = late.permit().unwrap();
    for late_refused in [false, true] {
        if late_refused {
            fence().seal(&database.pool, &unsealed).await.unwrap();
        }
        let permit = if late_refused { &sealed } else { &unsealed };
        let mut tx = database.pool.begin().await.unwrap();
        write(&mut tx, A_WRITES).await.unwrap();
        let check = fence().check(&mut tx, permit).await;
        let Err(Error::Refused { refusal, .. }) = check else { panic!("{check:?}") };
        assert_eq!(refusal == Refusal::NotSealed, !late_refused, "{refusal}");
        // Whoever overlooks the error: one of the two fails, or the commit rolls back.
        let _ = write(&mut tx, A_WRITES).await;
        let _ = tx.commit().await;
        assert_eq!(database.int(VALUE).await, 0);
    }
    // The double: a refusal that only says so.
    let mut tx = database.pool.begin().await.unwrap();
    assert!(!Guard::BesideTheTransaction.passes(&fence(), &database.pool, &mut tx, &sealed).await);
    write(&mut tx, A_WRITES).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.int(VALUE).await, 1);
}

pub(crate) async fn permit_past_its_deadline_is_refused_before_the_database_is_asked<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    let clock = ManualClock::new();
    let lease = leases(&database).clock(clock.clone()).acquire(&lock(), fixed()).await.unwrap();
    let permit = lease.permit().unwrap();
    fence().seal(&database.pool, &permit).await.unwrap();
    // Were the database asked, it would say that the table is not there.
    database.execute("DROP TABLE leastlock_fence").await;
    clock.jump(LONG);
    let mut tx = database.pool.begin().await.unwrap();
    let check = fence().check(&mut tx, &permit).await;
    let expired = Refusal::Lost { reason: LossReason::Expired };
    assert!(matches!(&check, Err(Error::Refused { refusal, .. }) if *refusal == expired), "{check:?}");
    let seal = fence().seal(&database.pool, &permit).await;
    assert!(matches!(seal, Err(Error::Lost { .. })), "{seal:?}");
}

#[cfg(feature = "postgres")]
pub(crate) async fn a_check_never_loosens_a_stricter_idle_timeout<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    let lease = acquire(&database).await;
    let permit = lease.permit().unwrap();
    fence().seal(&database.pool, &permit).await.unwrap();
    for (set, expected) in [("0", 1), ("1h", 1), ("20s", 0), ("20000ms", 0)] {
        let set = match set {
            "0" => "SET LOCAL idle_in_transaction_session_timeout = 0",
            "1h" => "SET LOCAL idle_in_transaction_session_timeout = '1h'",
            "20s" => "SET LOCAL idle_in_transaction_session_timeout = '20s'",
            _ => "SET LOCAL idle_in_transaction_session_timeout = '20000ms'",
        };
        let mut tx = database.pool.begin().await.unwrap();
        write(&mut tx, set).await.unwrap();
        fence().check(&mut tx, &permit).await.unwrap();
        let lease_ttl = "SELECT (current_setting('idle_in_transaction_session_timeout') = '1min')::int::bigint";
        let row = DB::fetch_query(&mut tx, sqlx::query(lease_ttl)).await.unwrap().unwrap();
        assert_eq!(row.int(0).unwrap(), expected, "{set}");
    }
}

#[cfg(feature = "postgres")]
pub(crate) async fn stricter_isolation_fails_instead_of_passing_an_old_snapshot<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    let database = prepare(database).await;
    for level in [
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ] {
        let (late, new) = paused_and_new(&database).await;
        let mut tx = database.pool.begin().await.unwrap();
        write(&mut tx, level).await.unwrap();
        DB::fetch_query(&mut tx, sqlx::query(VALUE)).await.unwrap();
        fence().seal(&database.pool, &new.permit().unwrap()).await.unwrap();
        let check = fence().check(&mut tx, &late.permit().unwrap()).await;
        let error = check.expect_err("its snapshot still has the old generation");
        assert!(matches!(error, Error::Refused { .. } | Error::Database { retryable: true, .. }), "{level}: {error:?}");
    }
}

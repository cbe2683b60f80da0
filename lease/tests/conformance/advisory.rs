//! Locks of the server's own: what is different where a lease is a session.

use std::time::Duration;

use leastlock_lease::{
    AdvisorySql, Claim, Grant, Hold, LeaseSql, LeaseStore, Leases, OwnerNonce, Pause, Release, Released, Renewal,
    Waiter,
};
use leastlock_testkit::TestEngine;
use tokio::time::{Instant, timeout};

use crate::rig::{Advisory, Rig};
use crate::world::{LIMIT, LONG, eventually, lock};

/// So long that whoever wakes earlier was woken.
const FAR: Pause = Pause::new(Duration::from_hours(1), Duration::from_hours(1));
/// How long something is given that must not come.
const MOMENT: Duration = Duration::from_millis(500);

async fn a_release_wakes_whoever_waits_in_the_server<DB: TestEngine + AdvisorySql + LeaseSql>() {
    let rig = Advisory::<DB>::create().await;
    let (name, [first, second, third]) = (lock(), [(); 3].map(|()| OwnerNonce::random().unwrap()));
    let [first, second, third] = [first, second, third].map(|nonce| Claim::new(&name, nonce, LONG));
    // As three processes.
    let [holds, waits, comes_later] = [(); 3].map(|()| rig.store().store);
    assert!(matches!(holds.acquire(first).await.unwrap(), Grant::Granted { .. }));
    // The server's queue is in the order in which the sessions have come to it.
    assert!(matches!(waits.acquire(second).await.unwrap(), Grant::Held(_)));
    eventually("the second waits in the server", async || rig.waiting().await == 1).await;
    assert!(matches!(comes_later.acquire(third).await.unwrap(), Grant::Held(_)));
    eventually("and the third", async || rig.waiting().await == 2).await;
    let [mut waiter, mut later] = [waits.waiter(second), comes_later.waiter(third)];
    assert!(timeout(MOMENT, waiter.wait(FAR)).await.is_err(), "it is held");

    assert_eq!(holds.release(first).await.unwrap(), Release::Released);
    timeout(LIMIT, waiter.wait(FAR)).await.expect("the server wakes it");
    assert!(matches!(waits.acquire(second).await.unwrap(), Grant::Granted { .. }));
    assert!(timeout(MOMENT, later.wait(FAR)).await.is_err(), "it has come later");

    // Who gives up its place keeps nobody from the lock, and leaves no session behind.
    assert_eq!(comes_later.release(third).await.unwrap(), Release::NotOwner);
    assert_eq!(waits.release(second).await.unwrap(), Release::Released);
    // The server may give the lock to the session that is on its way out, for the moment until it is.
    eventually("nobody has it", async || !rig.look().await.held).await;
}

async fn a_lease_that_nobody_will_release_ends_after_what_remains_of_it<DB: TestEngine + AdvisorySql + LeaseSql>() {
    let rig = Advisory::<DB>::create().await;
    let (store, name) = (rig.store().store, lock());
    let claim = Claim::new(&name, OwnerNonce::random().unwrap(), LONG);
    assert!(matches!(store.acquire(claim).await.unwrap(), Grant::Granted { .. }));
    let (begun, remaining) = (Instant::now(), Duration::from_secs(1));
    store.let_expire(claim, remaining);
    let held = rig.look().await.held;
    assert!(held || begun.elapsed() > remaining, "its holder may still believe in it");
    eventually("the session is over", async || !rig.look().await.held).await;
    assert_eq!(store.renew(claim, ()).await.unwrap(), Renewal::NotOwner);
}

/// The double has a session without that bound: `fixed` for a minute, and just as idle.
async fn a_session_that_sends_nothing_for_a_ttl_is_ended_by_the_server<DB: TestEngine + AdvisorySql + LeaseSql>() {
    let (short, long) = (Advisory::<DB>::create().await, Advisory::<DB>::create().await);
    let name = lock();
    let (idle, double) = (short.store().store, long.store().store);
    let claim = Claim::new(&name, OwnerNonce::random().unwrap(), Duration::from_secs(1));
    assert!(matches!(idle.acquire(claim).await.unwrap(), Grant::Granted { .. }));
    assert!(matches!(double.acquire(Claim::new(&name, claim.nonce, LONG)).await.unwrap(), Grant::Granted { .. }));
    eventually("the server has ended the session", async || !short.look().await.held).await;
    assert!(long.look().await.held);
    assert_eq!(idle.renew(claim, ()).await.unwrap(), Renewal::NotOwner);
}

/// Its connection has left the pool, and is not one that somebody else gets with the lock on it.
async fn a_released_lock_leaves_no_connection_with_it<DB: TestEngine + AdvisorySql + LeaseSql>() {
    let rig = Advisory::<DB>::create().await;
    let pool = rig.database().pool.clone();
    let leases = Leases::new(rig.store());
    for _ in 0..3 {
        let lease = leases.acquire_efficiency(&lock(), Hold::fixed(LONG)).await.unwrap();
        assert!(rig.look().await.held);
        assert_eq!(lease.release().await, Released::Released);
        assert!(!rig.look().await.held);
    }
    assert!(pool.size() <= pool.options().get_max_connections());
}

macro_rules! mount {
    ($engine:ident: $db:ty; $($case:ident),+ $(,)?) => {
        mod $engine {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $case() {
                    super::$case::<$db>().await;
                }
            )+
        }
    };
}

#[cfg(feature = "postgres")]
mount!(postgres: sqlx::Postgres;
    a_release_wakes_whoever_waits_in_the_server,
    a_lease_that_nobody_will_release_ends_after_what_remains_of_it,
    a_session_that_sends_nothing_for_a_ttl_is_ended_by_the_server,
    a_released_lock_leaves_no_connection_with_it,
);
#[cfg(feature = "mysql")]
mount!(mysql: sqlx::MySql;
    a_release_wakes_whoever_waits_in_the_server,
    a_lease_that_nobody_will_release_ends_after_what_remains_of_it,
    a_session_that_sends_nothing_for_a_ttl_is_ended_by_the_server,
    a_released_lock_leaves_no_connection_with_it,
);

#[cfg(feature = "postgres")]
mod transaction {
    use leastlock_lease::{Error, LockName, lock_in_transaction};
    use leastlock_testkit::TestDatabase;
    use sqlx::{Acquire as _, Postgres};

    use super::*;

    const WAITS: &str = "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database \
                         WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()";
    const LOCKS: &str = "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database \
                         WHERE locktype = 'advisory' AND datname = current_database()";

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn postgres_lock_of_a_transaction_ends_with_it_and_a_wait_leaves_the_transaction_whole() {
        let database = TestDatabase::<Postgres>::create().await;
        let (name, other) = (lock(), LockName::new("report:tenant-8").unwrap());
        let mut first = database.pool.begin().await.unwrap();
        assert!(lock_in_transaction(&mut first, &name, Duration::ZERO).await.unwrap());
        assert!(lock_in_transaction(&mut first, &name, Duration::ZERO).await.unwrap(), "its own");
        let mut second = database.pool.begin().await.unwrap();
        for wait in [Duration::ZERO, Duration::from_millis(50)] {
            assert!(!lock_in_transaction(&mut second, &name, wait).await.unwrap(), "{wait:?}");
        }
        assert!(lock_in_transaction(&mut second, &other, Duration::ZERO).await.unwrap(), "it goes on");
        let limit: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut *second).await.unwrap();
        assert_eq!(limit, "0");

        let waiter = tokio::spawn(async move {
            let locked = lock_in_transaction(&mut second, &name, LIMIT).await.unwrap();
            let limit: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut *second).await.unwrap();
            second.rollback().await.unwrap();
            (locked, limit)
        });
        eventually("the second waits", async || database.int(WAITS).await == 1).await;
        first.commit().await.unwrap();
        assert_eq!(waiter.await.unwrap(), (true, "0".to_owned()));
        assert_eq!(database.int(LOCKS).await, 0, "none outlives its transaction");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn postgres_lock_of_a_transaction_is_not_taken_inside_of_a_savepoint_that_could_end_it() {
        let (database, name) = (TestDatabase::<Postgres>::create().await, lock());
        let mut tx = database.pool.begin().await.unwrap();
        let mut savepoint = tx.begin().await.unwrap();
        let locked = lock_in_transaction(&mut savepoint, &name, Duration::ZERO).await;
        assert!(matches!(locked, Err(Error::Savepoint { .. })), "{locked:?}");
        // The double takes it all the same, and has it no longer than the savepoint.
        sqlx::query("SELECT pg_advisory_xact_lock(1)").execute(&mut *savepoint).await.unwrap();
        assert_eq!(database.int(LOCKS).await, 1);
        savepoint.rollback().await.unwrap();
        assert_eq!(database.int(LOCKS).await, 0);
        assert!(lock_in_transaction(&mut tx, &name, Duration::ZERO).await.unwrap());
    }
}

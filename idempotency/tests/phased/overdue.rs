//! How long a dead owner's key stays blocked: by the database's clock, from the end of its lease to the next owner.

use std::time::{Duration, Instant};

use leastlock_idempotency::phased::{Phased, PhasedBegin, PhasedSql, Run};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::bank::{Bank, Manner, charges};
use crate::killed::{BACK, FORWARD, PATIENCE, kill_at};
use crate::payer::{Call, Product, Told, clear, effects, fingerprint, key, tables};

/// The target: a key is at its end within the lease and this.
const TARGET_MS: i64 = 1000;

/// Of the claimant. Long, so that it is told apart from the dead owner's.
const NEXT_LEASE: Duration = Duration::from_mins(1);

/// When the lease ends, in ms of the database's clock.
async fn lease_until<DB: TestEngine>(database: &TestDatabase<DB>) -> i64 {
    let postgres = "SELECT (extract(epoch FROM lease_until) * 1000)::bigint FROM leastlock_idempotency";
    let sqlite = "SELECT lease_until FROM leastlock_idempotency";
    let mysql = "SELECT TIMESTAMPDIFF(MICROSECOND, '2000-01-01', lease_until) DIV 1000 FROM leastlock_idempotency";
    let standard = if DB::ENGINE == leastlock_core::Engine::Sqlite { sqlite } else { postgres };
    database.int(sql::<DB>(standard, mysql)).await
}

/// Asks until the key is had, every 20 ms after `idle` more.
async fn claim<DB: TestEngine + PhasedSql>(
    phased: &Phased,
    database: &TestDatabase<DB>,
    idle: Duration,
) -> Run<DB, String> {
    let (key, lamp, until) = (key(&Call::new("k1", "lamp")), fingerprint("lamp"), Instant::now() + PATIENCE);
    tokio::time::sleep(idle).await;
    loop {
        match phased.begin::<DB, String>(&database.pool, &key, &lamp).await.unwrap() {
            PhasedBegin::First(run) => return run,
            PhasedBegin::InFlight { .. } => assert!(Instant::now() < until, "the key is still in flight"),
            other => panic!("{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Kills an owner at `point`: how long after the end of its lease the next one has the key, in ms, which then comes to its end.
async fn overdue<DB: TestEngine + PhasedSql>(
    (database, bank): (&TestDatabase<DB>, &Bank<DB>),
    role: &str,
    (point, manner): (&str, Manner),
    idle: Duration,
) -> i64 {
    clear(database).await;
    kill_at(database, role, if manner == Manner::Declines { "decline-briefly" } else { "pay-briefly" }, point);
    let ended = lease_until(database).await;
    let mut product = Product::retrying();
    product.phased = Phased::builder().lease(NEXT_LEASE).renewed(false).build().unwrap();
    let run = claim(&product.phased, database, idle).await;
    let taken = lease_until(database).await - i64::try_from(NEXT_LEASE.as_millis()).unwrap();
    let told = product.run(run, bank, Call::new("k1", "lamp").at(manner)).await.unwrap();
    assert!(matches!(told, Told::Paid(_)), "killed at {point}: {told:?}");
    let expected = if manner == Manner::Declines { (0, 0) } else { (1, 1) };
    assert_eq!((effects(database).await, charges(database).await), expected, "killed at {point}");
    taken - ended
}

pub(crate) async fn i18_killed_at_any_point_the_key_goes_on_within_its_lease_and_a_second<
    DB: TestEngine + PhasedSql,
>(
    database: TestDatabase<DB>,
    role: &str,
) {
    let (database, bank) = tables(database).await;
    let world = (&database, &bank);
    let there = FORWARD.iter().map(|point| (*point, Manner::Answers));
    let and_back = BACK.iter().map(|point| (*point, Manner::Declines));
    // At the first of all nothing is claimed, at the last the key is at its end.
    let points = there.chain(and_back).filter(|(point, _)| !["begin", "completed"].contains(point));
    let mut worst = 0;
    for point in points {
        // Of three, the best: what a busy machine adds is not the library's.
        let mut best = i64::MAX;
        for _ in 0..3 {
            best = best.min(overdue(world, role, point, Duration::ZERO).await);
            if best <= TARGET_MS {
                break;
            }
        }
        assert!(best <= TARGET_MS, "killed at {}: taken over {best} ms after the end of the lease", point.0);
        worst = worst.max(best);
    }
    println!("taken over {worst} ms after the end of a dead owner's lease, at most");
    // The double is a claimant that looks too seldom.
    let seldom = Duration::from_millis(2500);
    let late = overdue(world, role, ("claimed", Manner::Answers), seldom).await;
    assert!(late > TARGET_MS, "the double must be seen to come too late: {late}");
}

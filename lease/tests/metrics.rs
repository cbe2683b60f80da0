//! What is counted of leases. A recorder of this thread's, so on SQLite.
#![cfg(all(feature = "metrics", feature = "sqlite"))]

use std::collections::BTreeMap;
use std::time::Duration;

use leastlock_lease::metrics::describe;
use leastlock_lease::{
    Acquire, CorrectnessLease, Error, Fence, Hold, Leases, LockName, MIGRATIONS, Released, SqlLeaseStore,
};
use leastlock_testkit::database::Sqlite;
use leastlock_testkit::{TestDatabase, until};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

const LIMIT: Duration = Duration::from_secs(30);
const LONG: Hold = Hold::fixed(Duration::from_mins(1));
/// Nothing of these may be in a label.
const SECRETS: [&str; 3] = ["tenant-7", "settlement-16", "report"];

/// What was counted and timed since the last look, by name and labels, such as `lost_total reason=expired`: how often; of a gauge by
/// how much it rose or fell, as a look sets it to zero.
fn counted(snapshots: &Snapshotter) -> BTreeMap<String, i64> {
    let mut seen = BTreeMap::new();
    for (key, unit, description, value) in snapshots.snapshot().into_vec() {
        let name = key.key().name();
        assert!(unit.is_some() && description.is_some(), "{name} is described");
        let mut text = name.strip_prefix("lease_").expect("the crate's prefix").to_owned();
        for label in key.key().labels() {
            text = format!("{text} {}={}", label.key(), label.value());
        }
        assert!(SECRETS.iter().all(|secret| !text.contains(secret)), "{text}");
        let count = match value {
            DebugValue::Counter(count) => i64::try_from(count).unwrap(),
            #[allow(clippy::cast_possible_truncation, reason = "a small whole number")]
            DebugValue::Gauge(value) => value.into_inner() as i64,
            DebugValue::Histogram(times) => {
                assert!(times.iter().all(|seconds| (0.0..60.0).contains(&seconds.into_inner())), "{text}: {times:?}");
                i64::try_from(times.len()).unwrap()
            }
        };
        if count != 0 {
            seen.insert(text, count);
        }
    }
    seen
}

fn expected<const N: usize>(counts: [(&str, i64); N]) -> BTreeMap<String, i64> {
    counts.into_iter().map(|(text, count)| (text.to_owned(), count)).collect()
}

fn lock() -> LockName {
    LockName::new("report:tenant-7:2026-09").unwrap()
}

async fn database() -> TestDatabase<Sqlite> {
    TestDatabase::<Sqlite>::create().await.with(&MIGRATIONS).await
}

fn leases(database: &TestDatabase<Sqlite>) -> Leases<SqlLeaseStore<Sqlite>> {
    Leases::new(SqlLeaseStore::new(&database.pool))
}

async fn expire(database: &TestDatabase<Sqlite>) {
    database.execute("UPDATE leastlock_lease SET lease_until = acquired_at").await;
}

async fn acquire(leases: &Leases<SqlLeaseStore<Sqlite>>, hold: Hold) -> CorrectnessLease {
    leases.acquire_with(&lock(), hold, Acquire::waiting(LIMIT).job("settlement-16")).await.unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn acquisitions_are_timed_by_outcome_and_counted_while_they_wait() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let _default = metrics::set_default_local_recorder(&recorder);
    describe();
    let database = database().await;
    let leases = leases(&database);

    let first = acquire(&leases, LONG).await;
    let hasty = leases.acquire_with(&lock(), LONG, Acquire::fail_fast()).await;
    assert!(matches!(hasty, Err(Error::Held { .. })), "{hasty:?}");
    let seen = expected([("wait_seconds outcome=granted", 1), ("wait_seconds outcome=held", 1)]);
    assert_eq!(counted(&snapshots), seen, "neither has waited for its turn");

    let waiting = |leases: &Leases<SqlLeaseStore<Sqlite>>| {
        let leases = leases.clone();
        tokio::spawn(async move { acquire(&leases, LONG).await.release().await })
    };
    let (patient, cancelled) = (waiting(&leases), waiting(&leases));
    let mut waiters = 0;
    until("both wait", LIMIT, async || {
        waiters += counted(&snapshots).remove("waiters").unwrap_or_default();
        waiters == 2
    })
    .await;
    cancelled.abort();
    let mut seen = BTreeMap::new();
    until("one waits", LIMIT, async || {
        seen.extend(counted(&snapshots));
        seen.contains_key("wait_seconds outcome=cancelled")
    })
    .await;
    assert_eq!(seen, expected([("waiters", -1), ("wait_seconds outcome=cancelled", 1)]));
    assert_eq!(first.release().await, Released::Released);
    assert_eq!(patient.await.unwrap(), Released::Released);
    let seen = [("waiters", -1), ("wait_seconds outcome=granted", 1), ("held_seconds ended=released", 2)];
    assert_eq!(counted(&snapshots), expected(seen), "and nobody waits any more");

    // Efficiency leases go on to the next without a trip.
    let renewed = Hold::renewed(Duration::from_mins(1));
    let first = leases.acquire_efficiency(&lock(), renewed).await.unwrap();
    let next = tokio::spawn({
        let leases = leases.clone();
        async move { leases.acquire_efficiency(&lock(), renewed).await.unwrap().release().await }
    });
    until("it waits", LIMIT, async || counted(&snapshots).get("waiters") == Some(&1)).await;
    assert_eq!(first.release().await, Released::Released);
    assert_eq!(next.await.unwrap(), Released::Released);
    let seen = [("waiters", -1), ("wait_seconds outcome=handed_on", 1), ("held_seconds ended=released", 2)];
    assert_eq!(counted(&snapshots), expected(seen));
}

#[tokio::test(flavor = "current_thread")]
async fn losses_are_counted_by_reason_and_refused_writes_by_refusal() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let _default = metrics::set_default_local_recorder(&recorder);
    describe();
    let database = database().await;
    let (leases, fence) = (leases(&database), Fence::new("report:tenant-7").unwrap());
    let check = async |lease: &leastlock_lease::Permit| {
        let mut tx = database.pool.begin().await.unwrap();
        assert!(fence.check(&mut tx, lease).await.is_err());
    };

    let short = acquire(&leases, Hold::fixed(Duration::from_millis(100))).await;
    let late = short.permit().unwrap();
    short.lost().await;
    check(&late).await;
    let old = acquire(&leases, LONG).await;
    let permit = old.permit().unwrap();
    check(&permit).await;
    fence.seal(&database.pool, &permit).await.unwrap();
    expire(&database).await;
    let new = acquire(&leases, LONG).await;
    fence.seal(&database.pool, &new.permit().unwrap()).await.unwrap();
    check(&permit).await;
    drop(old);
    drop(new);
    let seen = expected([
        ("wait_seconds outcome=granted", 3),
        ("held_seconds ended=expired", 1),
        ("held_seconds ended=abandoned", 2),
        ("lost_total reason=expired", 1),
        ("lost_total reason=abandoned", 2),
        ("stale_write_refused_total refusal=lost", 1),
        ("stale_write_refused_total refusal=not_sealed", 1),
        ("stale_write_refused_total refusal=superseded", 1),
    ]);
    assert_eq!(counted(&snapshots), seen);

    expire(&database).await;
    let longest = Hold::fixed(Duration::from_mins(1)).max_hold(Duration::from_millis(50));
    let lease = acquire(&leases, longest).await;
    lease.lost().await;
    let seen = counted(&snapshots);
    assert_eq!(seen.get("lost_total reason=max_hold"), Some(&1), "{seen:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn renewals_are_timed_by_outcome_and_failed_ones_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let _default = metrics::set_default_local_recorder(&recorder);
    describe();
    let database = database().await;
    let leases = leases(&database);
    let lease = acquire(&leases, Hold::renewed(Duration::from_millis(900))).await;
    let mut seen = BTreeMap::new();
    until("one is confirmed", LIMIT, async || {
        seen.extend(counted(&snapshots));
        seen.contains_key("renew_seconds outcome=confirmed")
    })
    .await;
    // Without its table the store answers with an error.
    database.execute("ALTER TABLE leastlock_lease RENAME TO hidden").await;
    until("one fails", LIMIT, async || {
        seen.extend(counted(&snapshots));
        seen.contains_key("renew_failed_total") && seen.contains_key("renew_seconds outcome=unanswered")
    })
    .await;
    lease.lost().await;
    database.execute("ALTER TABLE hidden RENAME TO leastlock_lease").await;
    let other = LockName::new("job:other").unwrap();
    let lease = leases.acquire(&other, Hold::renewed(Duration::from_millis(900))).await.unwrap();
    database.execute("UPDATE leastlock_lease SET lease_until = acquired_at").await;
    lease.lost().await;
    seen.extend(counted(&snapshots));
    assert!(seen.contains_key("renew_seconds outcome=not_owner"), "{seen:?}");
    assert_eq!(seen.get("lost_total reason=not_owner"), Some(&1), "{seen:?}");
}

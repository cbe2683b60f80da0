//! What both modes count: begins, units, runs, steps, and what is unknown. A recorder of this thread's, so on SQLite.
#![cfg(all(feature = "metrics", feature = "sqlite"))]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leastlock_idempotency::metrics::{IDEMPOTENCY_UNKNOWN_KEYS, IDEMPOTENCY_UNKNOWN_OLDEST_SECONDS, describe};
use leastlock_idempotency::phased::{
    External, Failure, Hold, Inquiry, Local, Phased, PhasedBegin, Reconciler, Resolution, Resolved, RetryWithSameKey,
    Run, Unknown, UnknownStep, Verdict,
};
use leastlock_idempotency::{Begin, BeginIn, Error, Fingerprint, Key, Keys, MIGRATIONS, Scope};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Sqlite;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

const PATIENCE: Duration = Duration::from_secs(30);

/// Nothing of these may be in a label.
const SECRETS: [&str; 5] = ["8e03978e", "tenant-1", "pay-for", "a lamp", "reserve"];

fn key(name: &str) -> Key {
    Key::new(&Scope::new("tenant-1", "user-3", "pay-for").unwrap(), &format!("8e03978e-{name}")).unwrap()
}

fn says(payload: &str) -> Fingerprint {
    Fingerprint::request("POST", "/payments", "").bytes(payload.as_bytes())
}

async fn database() -> TestDatabase<Sqlite> {
    TestDatabase::<Sqlite>::create().await.with(&MIGRATIONS).await
}

async fn end_leases(database: &TestDatabase<Sqlite>) {
    database.execute("UPDATE leastlock_idempotency SET lease_until = created_at WHERE state = 'running'").await;
}

/// Every counter since the last look, by name and labels, such as `begins_total mode=phased outcome=first`; gauges are added to
/// `gauges`.
fn counted(snapshots: &Snapshotter, gauges: &mut BTreeMap<String, f64>) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    for (key, unit, description, value) in snapshots.snapshot().into_vec() {
        let name = key.key().name();
        assert!(unit.is_some() && description.is_some(), "{name} is described");
        let mut text = name.strip_prefix("idempotency_").expect("the crate's prefix").to_owned();
        for label in key.key().labels() {
            text = format!("{text} {}={}", label.key(), label.value());
        }
        assert!(SECRETS.iter().all(|secret| !text.contains(secret)), "{text}");
        match value {
            DebugValue::Counter(0) => {}
            DebugValue::Counter(count) => {
                counters.insert(text, count);
            }
            DebugValue::Gauge(value) => {
                gauges.insert(name.to_owned(), value.into_inner());
            }
            DebugValue::Histogram(_) => panic!("{name} is none"),
        }
    }
    counters
}

fn expected<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(text, count)| (text.to_owned(), count)).collect()
}

async fn begin_unit(
    database: &TestDatabase<Sqlite>,
    name: &str,
    payload: &str,
) -> Result<Begin<Sqlite, String>, Error> {
    Keys::default().begin(&database.pool, &key(name), &says(payload)).await
}

async fn first_unit(database: &TestDatabase<Sqlite>, name: &str) -> leastlock_idempotency::Unit<Sqlite, String> {
    match begin_unit(database, name, "a lamp").await.unwrap() {
        Begin::First(unit) => unit,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "current_thread")]
async fn transactional_begins_are_counted_by_outcome_and_units_by_how_they_end() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let _default = metrics::set_default_local_recorder(&recorder);
    describe();
    let database = database().await;

    first_unit(&database, "1").await.complete("done".to_owned()).await.unwrap();
    assert!(matches!(begin_unit(&database, "1", "a lamp").await.unwrap(), Begin::Replay(_)));
    assert!(matches!(begin_unit(&database, "1", "a rug").await.unwrap(), Begin::Mismatch));
    first_unit(&database, "2").await.release().await.unwrap();
    drop(first_unit(&database, "3").await);
    let large = first_unit(&database, "4").await.complete("x".repeat(300 * 1024)).await;
    assert!(matches!(large, Err(Error::ResponseTooLarge { .. })), "{large:?}");
    let run = Phased::default().begin::<_, String>(&database.pool, &key("5"), &says("a lamp")).await.unwrap();
    assert!(matches!(begin_unit(&database, "5", "a lamp").await, Err(Error::Phased)));
    drop(run);
    let mut tx = leastlock_core::begin(&database.pool).await.unwrap();
    let joined = Keys::default().begin_in::<_, String>(&mut tx, &key("6"), &says("a lamp")).await.unwrap();
    let BeginIn::First(claim) = joined else { panic!("{joined:?}") };
    claim.complete(&mut tx, "done".to_owned()).await.unwrap();
    tx.commit().await.unwrap();

    let mut counted = counted(&snapshots, &mut BTreeMap::new());
    counted.retain(|text, _| !text.contains("mode=phased") && !text.starts_with("runs"));
    assert_eq!(
        counted,
        expected([
            ("begins_total mode=transactional outcome=first", 5),
            ("begins_total mode=transactional outcome=replay", 1),
            ("begins_total mode=transactional outcome=mismatch", 1),
            ("begins_total mode=transactional outcome=error", 1),
            ("units_total ended=completed", 1),
            ("units_total ended=released", 1),
            ("units_total ended=dropped", 1),
            ("units_total ended=failed", 1),
        ])
    );
}

fn phased() -> Phased {
    Phased::builder().renewed(false).build().unwrap()
}

async fn begin_run(database: &TestDatabase<Sqlite>, name: &str, payload: &str) -> PhasedBegin<Sqlite, String> {
    phased().begin(&database.pool, &key(name), &says(payload)).await.unwrap()
}

async fn first_run(database: &TestDatabase<Sqlite>, name: &str) -> Run<Sqlite, String> {
    match begin_run(database, name, "a lamp").await {
        PhasedBegin::First(run) => run,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "current_thread")]
async fn phased_begins_and_steps_are_counted_by_outcome_and_runs_once_by_how_they_end() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let _default = metrics::set_default_local_recorder(&recorder);
    describe();
    let database = database().await;

    let mut run = first_run(&database, "1").await;
    let Local::Todo(step) = run.local::<u32>("reserve").await.unwrap() else { panic!("to be done") };
    drop(step);
    let Local::Todo(step) = run.local::<u32>("reserve").await.unwrap() else { panic!("to be done") };
    step.done(7).await.unwrap();
    let External::Todo(call) = run.external::<u32, _>("charge", Hold).await.unwrap() else { panic!("a call") };
    call.not_sent().await.unwrap();
    let External::Todo(call) = run.external::<u32, _>("charge", Hold).await.unwrap() else { panic!("a call") };
    call.done(7).await.unwrap();
    drop(run);
    assert!(matches!(begin_run(&database, "1", "a lamp").await, PhasedBegin::InFlight { .. }));
    end_leases(&database).await;
    let mut run = first_run(&database, "1").await;
    assert!(matches!(run.local::<u32>("reserve").await.unwrap(), Local::Done(7)));
    assert!(matches!(run.external::<u32, _>("charge", Hold).await.unwrap(), External::Done(7)));
    let External::Todo(call) = run.external::<u32, _>("ship", Hold).await.unwrap() else { panic!("a call") };
    call.failed(&"no such street").await.unwrap();
    run.complete("not shipped".to_owned()).await.unwrap();
    assert!(matches!(begin_run(&database, "1", "a lamp").await, PhasedBegin::Replay(_)));
    assert!(matches!(begin_run(&database, "1", "a rug").await, PhasedBegin::Mismatch));

    // Superseded, and told so as often as it asks.
    let late = first_run(&database, "2").await;
    end_leases(&database).await;
    let owner = first_run(&database, "2").await;
    for _ in 0..2 {
        assert!(matches!(late.renew().await, Err(Error::Superseded)));
    }
    drop(late);
    owner.release().await.unwrap();

    // Unknown, and held.
    let mut run = first_run(&database, "3").await;
    let External::Todo(call) = run.external::<u32, _>("charge", RetryWithSameKey).await.unwrap() else {
        panic!("a call")
    };
    drop(call);
    assert!(matches!(run.external::<u32, _>("charge", Hold).await.unwrap(), External::Held(_)));
    drop(run);
    assert!(matches!(begin_run(&database, "3", "a lamp").await, PhasedBegin::Unknown(_)));

    assert_eq!(
        counted(&snapshots, &mut BTreeMap::new()),
        expected([
            ("begins_total mode=phased outcome=first", 3),
            ("begins_total mode=phased outcome=resumed", 2),
            ("begins_total mode=phased outcome=replay", 1),
            ("begins_total mode=phased outcome=mismatch", 1),
            ("begins_total mode=phased outcome=in_flight", 1),
            ("begins_total mode=phased outcome=unknown", 1),
            ("runs_total ended=completed", 1),
            ("runs_total ended=released", 1),
            ("runs_total ended=held", 1),
            ("runs_total ended=superseded", 1),
            ("runs_total ended=left", 1),
            ("steps_total kind=local outcome=done", 1),
            ("steps_total kind=local outcome=rolled_back", 1),
            ("steps_total kind=local outcome=recorded", 1),
            ("steps_total kind=external outcome=done", 1),
            ("steps_total kind=external outcome=not_sent", 1),
            ("steps_total kind=external outcome=recorded", 1),
            ("steps_total kind=external outcome=failed", 1),
            ("steps_total kind=external outcome=unknown", 1),
            ("steps_total kind=external outcome=held", 1),
        ])
    );
}

/// A provider that knows that everything took effect.
struct Sure;

impl Inquiry for Sure {
    async fn ask(&self, _: &Key, _: &UnknownStep) -> Verdict<serde_json::Value> {
        Verdict::Done(7.into())
    }
}

async fn list(database: &TestDatabase<Sqlite>) -> Vec<Unknown> {
    phased().list_unknown(&database.pool, Duration::ZERO, 10).await.unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn unknown_keys_and_the_age_of_the_oldest_are_seen_as_they_are_listed_and_resolved() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let _default = metrics::set_default_local_recorder(&recorder);
    describe();
    let (database, mut gauges) = (database().await, BTreeMap::new());
    for name in ["1", "2"] {
        let mut run = first_run(&database, name).await;
        let External::Todo(call) = run.external::<u32, _>("charge", Hold).await.unwrap() else { panic!("a call") };
        drop(call);
        assert!(matches!(run.external::<u32, _>("charge", Hold).await.unwrap(), External::Held(_)));
    }
    database
        .execute(
            "UPDATE leastlock_idempotency SET unknown_since = unknown_since - 90000 WHERE idempotency_key LIKE '%-1'",
        )
        .await;
    let listed = list(&database).await;
    let _ = counted(&snapshots, &mut gauges);
    let age = listed.iter().map(|unknown| unknown.since).max().unwrap().as_secs_f64();
    assert!(age >= 90.0, "{age}");
    let gauge = |gauges: &BTreeMap<String, f64>| {
        [IDEMPOTENCY_UNKNOWN_KEYS, IDEMPOTENCY_UNKNOWN_OLDEST_SECONDS].map(|name| gauges[name])
    };
    assert!(gauge(&gauges).iter().zip([2.0, age]).all(|(seen, is)| (seen - is).abs() < 1e-6), "{gauges:?}");

    let failed = || Resolution::step_failed(Failure::of(&"declined").unwrap());
    let pool = &database.pool;
    assert_eq!(phased().resolve(pool, &listed[0], failed(), "ops", "seen").await.unwrap(), Resolved::Applied);
    assert_eq!(phased().resolve(pool, &listed[0], failed(), "ops", "seen").await.unwrap(), Resolved::Changed);
    assert!(matches!(phased().resolve(pool, &listed[0], failed(), "", "seen").await, Err(Error::Unaccounted)));
    let reconciler = Reconciler::builder(phased(), pool.clone(), Sure).older_than(Duration::ZERO).build().unwrap();
    assert_eq!(reconciler.once().await.unwrap().resolved, 1);
    database.execute("DELETE FROM leastlock_idempotency").await;
    assert!(list(&database).await.is_empty());
    assert_eq!(
        counted(&snapshots, &mut gauges),
        expected([
            ("asks_total answer=done", 1),
            ("resolutions_total by=operator resolution=step-failed outcome=applied", 1),
            ("resolutions_total by=operator resolution=step-failed outcome=changed", 1),
            ("resolutions_total by=operator resolution=step-failed outcome=error", 1),
            ("resolutions_total by=reconciler resolution=step-done outcome=applied", 1),
        ])
    );
    assert!(
        gauge(&gauges).iter().all(|seen| seen.abs() < 1e-6),
        "what is not there any more does not stay: {gauges:?}"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn renewals_that_fail_are_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let _default = metrics::set_default_local_recorder(&recorder);
    describe();
    let database = database().await;
    let quick = Phased::builder().lease(Duration::from_millis(300)).build().unwrap();
    let run = quick.begin::<_, String>(&database.pool, &key("1"), &says("a lamp")).await.unwrap();
    let PhasedBegin::First(run) = run else { panic!("{run:?}") };
    // Renewed, it has not failed.
    let (until, mut left) = (Instant::now() + PATIENCE, run.remaining());
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let before = std::mem::replace(&mut left, run.remaining());
        if left > before {
            break;
        }
        assert!(Instant::now() < until, "it is renewed");
    }
    assert!(!counted(&snapshots, &mut BTreeMap::new()).contains_key("renewals_failed_total"));
    database.pool.close().await;
    while !counted(&snapshots, &mut BTreeMap::new()).contains_key("renewals_failed_total") {
        assert!(Instant::now() < until, "nothing can be renewed any more");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(run);
}

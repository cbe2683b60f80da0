//! Who looks after what is unknown: resolutions, on record with who decided them, and reconcilers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leastlock_core::{Backoff, Statement};
use leastlock_idempotency::phased::{
    External, Failure, Hold, Inquiry, PhasedBegin, PhasedSql, Reconciler, Resolution, Resolved, StepError, Unknown,
    UnknownStep, Verdict,
};
use leastlock_idempotency::{Error, Key};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::bank::{Bank, Manner};
use crate::payer::{Call, clear, end_leases, fingerprint, key, tables};
use crate::steps::{first, phased};
use crate::unknown::{die_in_the_call, hold, repeat};

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn resolution_is_in_force_with_its_audit_or_not_at_all<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, bank) = tables(database).await;
    let (pool, phased) = (&database.pool, phased());
    let outcomes = [
        ("k1", Resolution::step_done(&"receipt").unwrap(), "done"),
        ("k2", Resolution::step_not_done(), "again"),
        ("k3", Resolution::step_failed(Failure::of(&"declined").unwrap()), "failed"),
        ("k4", Resolution::completed(&"paid by hand".to_owned()).unwrap(), "replay"),
        ("k5", Resolution::released(), "fresh"),
        ("k6", Resolution::resumed(), "held"),
    ];
    for (item, resolution, expected) in outcomes {
        let unknown = hold(&database, &bank, item).await;
        let unsigned = phased.resolve(pool, &unknown, resolution.clone(), " ", "seen").await;
        assert!(matches!(unsigned, Err(Error::Unaccounted)), "{unsigned:?}");
        let resolved = phased.resolve(pool, &unknown, resolution.clone(), "ops", "seen in the bank's console").await;
        assert_eq!(resolved.unwrap(), Resolved::Applied);
        let twice = phased.resolve(pool, &unknown, resolution, "ops", "again").await.unwrap();
        assert_eq!(twice, Resolved::Changed);

        let begun = phased.begin::<DB, String>(pool, &unknown.key, &fingerprint("lamp")).await.unwrap();
        let found = match begun {
            PhasedBegin::Replay(answer) => {
                assert_eq!(answer, "paid by hand");
                "replay"
            }
            PhasedBegin::First(run) if run.resumed_at().is_none() => "fresh",
            PhasedBegin::First(mut run) => match run.external::<String, _>("charge", Hold).await.unwrap() {
                External::Done(_) => "done",
                External::Failed(_) => "failed",
                External::Todo(_) => "again",
                External::Held(_) => "held",
            },
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{item}");
    }
    // An operator's answer has the limit of any other.
    let unknown = hold(&database, &bank, "k7").await;
    let large = Resolution::completed(&"x".repeat(300 * 1024)).unwrap();
    let large = phased.resolve(pool, &unknown, large, "ops", "seen").await;
    assert!(matches!(large, Err(Error::ResponseTooLarge { limit: 262_144, .. })), "{large:?}");
    let audit =
        Statement::new("SELECT outcome, step, resolved_by, reason FROM leastlock_idempotency_audit ORDER BY id");
    let mut connection = pool.acquire().await.unwrap();
    let rows = audit.fetch_all::<DB>(&mut connection).await.unwrap();
    let outcomes: Vec<_> = rows.iter().map(|row| row.text(0).unwrap()).collect();
    assert_eq!(
        outcomes,
        ["step-done", "step-not-done", "step-failed", "completed", "released", "resumed"],
        "one row each"
    );
    assert_eq!(rows[0].text(1).unwrap(), "charge");
    assert_eq!(rows[0].text(2).unwrap() + ": " + &rows[0].text(3).unwrap(), "ops: seen in the bank's console");
}

pub(crate) async fn i2_owner_before_a_resolution_is_superseded<DB: TestEngine + PhasedSql>(database: TestDatabase<DB>) {
    let (database, _bank) = tables(database).await;
    let (pool, phased) = (&database.pool, phased());
    let mut late = first(&phased, &database, "k1").await;
    let External::Todo(attempt) = late.external::<String, _>("charge", Hold).await.unwrap() else { panic!("a call") };
    let listed = phased.list_unknown(pool, Duration::ZERO, 10).await.unwrap();
    assert!(listed.is_empty(), "its lease is not over: {listed:?}");
    end_leases(&database).await;
    let listed = phased.list_unknown(pool, Duration::ZERO, 10).await.unwrap();
    let [unknown] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((&unknown.key, &unknown.held_because), (&key(&Call::new("k1", "lamp")), &None));
    assert_eq!(unknown.step.as_ref().map(|step| &step.provider_key), Some(attempt.provider_key()));
    assert!(phased.list_unknown(pool, PATIENCE, 10).await.unwrap().is_empty(), "it is not that old");

    let failed = Resolution::step_failed(Failure::of(&"declined").unwrap());
    assert_eq!(phased.resolve(pool, unknown, failed, "ops", "seen").await.unwrap(), Resolved::Applied);
    assert!(matches!(attempt.done("receipt".to_owned()).await, Err(Error::Superseded)));

    let listed = phased.list_unknown(pool, Duration::ZERO, 10).await.unwrap();
    let [unknown] = &listed[..] else { panic!("it waits for its next claimant: {listed:?}") };
    let nothing_open = phased.resolve(pool, unknown, Resolution::step_not_done(), "ops", "seen").await;
    assert!(matches!(nothing_open, Err(Error::Step { source: StepError::NothingOpen })), "{nothing_open:?}");
}

pub(crate) async fn i2_resolution_of_one_step_does_not_settle_the_next_one_of_a_woken_owner<
    DB: TestEngine + PhasedSql,
>(
    database: TestDatabase<DB>,
) {
    /// The owner of `item` wakes up once it is listed, goes on under its generation, and dies in its next call. `settle` then says
    /// what it knows of the step that was listed. Whether the next claimant holds for settled what nobody has looked into.
    async fn settles_the_next<DB: TestEngine + PhasedSql>(
        (database, bank): (&TestDatabase<DB>, &Bank<DB>),
        item: &str,
        settle: impl AsyncFn(&Unknown),
    ) -> bool {
        let (pool, phased) = (&database.pool, phased());
        let mut late = first(&phased, database, item).await;
        let External::Todo(attempt) = late.external::<String, _>("charge", Hold).await.unwrap() else {
            panic!("a call")
        };
        end_leases(database).await;
        let listed = phased.list_unknown(pool, Duration::ZERO, 10).await.unwrap();
        let unknown = listed.iter().find(|unknown| unknown.key.as_str() == item).expect("it is listed").clone();
        assert_eq!(unknown.step.as_ref().map(|step| step.name.as_str()), Some("charge"));
        bank.charge(attempt.provider_key().as_str(), item, Manner::Answers).await;
        attempt.done("receipt".to_owned()).await.unwrap();
        assert!(matches!(late.external::<String, _>("ship", Hold).await.unwrap(), External::Todo(_)));
        drop(late);
        end_leases(database).await;
        settle(&unknown).await;
        end_leases(database).await;
        let mut run = first(&phased, database, item).await;
        let charge = run.external::<String, _>("charge", Hold).await.unwrap();
        assert!(matches!(charge, External::Done(_)), "{item}: what was recorded stays: {charge:?}");
        !matches!(run.external::<String, _>("ship", Hold).await.unwrap(), External::Held(_))
    }
    let (database, bank) = tables(database).await;
    let (pool, phased, world) = (&database.pool, phased(), (&database, &bank));
    let outcomes = [
        ("k1", Resolution::step_done(&"receipt").unwrap()),
        ("k2", Resolution::step_not_done()),
        ("k3", Resolution::step_failed(Failure::of(&"declined").unwrap())),
        ("k4", Resolution::released()),
    ];
    for (item, resolution) in outcomes {
        let settle = async |unknown: &Unknown| {
            let resolved = phased.resolve(pool, unknown, resolution.clone(), "ops", "seen").await.unwrap();
            assert_eq!(resolved, Resolved::Changed, "{item}");
        };
        assert!(!settles_the_next(world, item, settle).await, "{item}");
    }
    // The double goes by the generation alone, which the owner that woke up still has.
    let by_generation = async |unknown: &Unknown| {
        let read = sql::<DB>(
            "SELECT step_data FROM leastlock_idempotency WHERE idempotency_key = $1 AND generation = $2",
            "SELECT step_data FROM leastlock_idempotency WHERE idempotency_key = ? AND generation = ?",
        );
        let write = sql::<DB>(
            "UPDATE leastlock_idempotency SET step_data = $1 WHERE idempotency_key = $2",
            "UPDATE leastlock_idempotency SET step_data = ? WHERE idempotency_key = ?",
        );
        let mut connection = pool.acquire().await.unwrap();
        let read = Statement::new(read).bind(unknown.key.as_str()).bind(unknown.generation);
        let steps = read.fetch_one::<DB>(&mut connection).await.unwrap().bytes(0).unwrap();
        let steps = String::from_utf8(steps).unwrap().replace("\"started\"", "\"done\",\"outcome\":\"receipt\"");
        let write = Statement::new(write).bind(steps.as_bytes()).bind(unknown.key.as_str());
        assert_eq!(write.execute::<DB>(&mut connection).await.unwrap(), 1);
    };
    assert!(settles_the_next(world, "double", by_generation).await, "the double must be seen to settle the next step");

    // A key that was released and claimed anew has the same numbers, and is another claim.
    let claimed = first(&phased, &database, "k5").await;
    end_leases(&database).await;
    let listed = phased.list_unknown(pool, Duration::ZERO, 10).await.unwrap();
    let unknown = listed.iter().find(|unknown| unknown.key.as_str() == "k5").expect("it is listed").clone();
    claimed.release().await.unwrap();
    let again = first(&phased, &database, "k5").await;
    assert_eq!(again.generation(), unknown.generation);
    end_leases(&database).await;
    let resolved = phased.resolve(pool, &unknown, Resolution::released(), "ops", "seen").await.unwrap();
    assert_eq!(resolved, Resolved::Changed);
}

/// Asks the bank's ledger.
struct Ledger<DB: TestEngine> {
    bank: Bank<DB>,
    knows: bool,
    asked: Arc<AtomicU32>,
}

impl<DB: TestEngine> Inquiry for Ledger<DB> {
    async fn ask(&self, _: &Key, step: &UnknownStep) -> Verdict<Value> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if !self.knows {
            return Verdict::StillUnknown;
        }
        if self.bank.has(step.provider_key.as_str()).await {
            Verdict::Done(Value::from("receipt"))
        } else {
            Verdict::NotDone
        }
    }
}

fn reconciler<DB: TestEngine + PhasedSql>(
    database: &TestDatabase<DB>,
    bank: &Bank<DB>,
    knows: bool,
) -> (Reconciler<DB, Ledger<DB>>, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let ledger = Ledger { bank: bank.again(), knows, asked: Arc::clone(&asked) };
    let hour = Duration::from_hours(1);
    let reconciler = Reconciler::builder(phased(), database.pool.clone(), ledger)
        .older_than(Duration::ZERO)
        .interval(Duration::from_millis(10))
        .backoff(Backoff::new(hour, hour))
        .batch(2)
        .build()
        .unwrap();
    (reconciler, asked)
}

pub(crate) async fn reconciler_settles_what_the_provider_knows<DB: TestEngine + PhasedSql>(database: TestDatabase<DB>) {
    let (database, bank) = tables(database).await;
    hold(&database, &bank, "held").await;
    die_in_the_call(&database, &bank, "abandoned").await;
    let mut run = first(&phased(), &database, "never-arrived").await;
    assert!(matches!(run.external::<String, _>("charge", Hold).await.unwrap(), External::Todo(_)));
    drop(run);
    end_leases(&database).await;
    // Held without a step, and at work: nothing to ask about.
    first(&phased(), &database, "by-hand").await.hold("look at it").await.unwrap();
    let _at_work = first(&phased(), &database, "at-work").await;

    let (reconciler, asked) = reconciler(&database, &bank, true);
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(reconciler.run(shutdown.clone()));
    let until = Instant::now() + PATIENCE;
    while database.int("SELECT count(*) FROM leastlock_idempotency_audit").await < 3 {
        assert!(Instant::now() < until, "three keys are resolved");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    shutdown.cancel();
    let summary = task.await.unwrap().unwrap();
    assert_eq!((summary.asked, summary.resolved, summary.still_unknown), (3, 3, 0), "{summary:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 3);

    for (item, is_done) in [("held", true), ("abandoned", true), ("never-arrived", false)] {
        let mut run = first(&phased(), &database, item).await;
        match run.external::<String, _>("charge", Hold).await.unwrap() {
            External::Done(receipt) if is_done => assert_eq!(receipt, "receipt"),
            External::Todo(_) if !is_done => {}
            other => panic!("{item}: {other:?}"),
        }
    }
    assert!(matches!(repeat(&database, "by-hand").await, PhasedBegin::Unknown(_)));

    // The double takes no answer for a no: what has charged is free to be called again.
    clear(&database).await;
    hold(&database, &bank, "double").await;
    let hasty = Reconciler::builder(phased(), database.pool.clone(), Hasty).older_than(Duration::ZERO).build().unwrap();
    assert_eq!(hasty.once().await.unwrap().resolved, 1);
    let mut run = first(&phased(), &database, "double").await;
    let again = run.external::<String, _>("charge", Hold).await.unwrap();
    assert!(matches!(again, External::Todo(_)), "the double must be seen to call again: {again:?}");
}

/// Takes a time-out for an answer, and so breaks the contract.
struct Hasty;

impl Inquiry for Hasty {
    async fn ask(&self, _: &Key, _: &UnknownStep) -> Verdict<Value> {
        Verdict::NotDone
    }
}

pub(crate) async fn reconcilers_share_the_asks_and_pause_between_them<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, bank) = tables(database).await;
    hold(&database, &bank, "k1").await;
    let (one, asked_by_one) = reconciler(&database, &bank, false);
    let (two, asked_by_two) = reconciler(&database, &bank, false);
    for _ in 0..3 {
        let (one, two) = tokio::join!(one.once(), two.once());
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!(one.resolved + two.resolved, 0, "not knowing resolves nothing");
    }
    let asked = asked_by_one.load(Ordering::SeqCst) + asked_by_two.load(Ordering::SeqCst);
    assert_eq!(asked, 1, "the pause of an hour has begun");
    // The double: no pause is kept.
    database.execute("UPDATE leastlock_idempotency SET ask_after = NULL").await;
    one.once().await.unwrap();
    assert_eq!(asked_by_one.load(Ordering::SeqCst) + asked_by_two.load(Ordering::SeqCst), 2);
    assert!(matches!(repeat(&database, "k1").await, PhasedBegin::Unknown(_)));
}

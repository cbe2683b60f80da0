//! What is unknown is visible, is settled by a definite word only, and by whom is on record.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leastlock_core::{Backoff, Statement};
use leastlock_idempotency::phased::{
    External, Failure, Hold, Inquiry, Phased, PhasedBegin, PhasedSql, Policy, ProviderKey, Reconcile, Reconciler,
    Resolution, Resolved, RetryWithSameKey, Run, StepError, Unknown, UnknownStep, Verdict,
};
use leastlock_idempotency::{Error, Key};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::bank::{Bank, Manner, charges};
use crate::payer::{Call, end_leases, fingerprint, key, tables};
use crate::steps::{first, phased};

const PATIENCE: Duration = Duration::from_secs(30);

/// Calls the bank, whose answer is lost, and dies; `item` is the key as well.
async fn die_in_the_call<DB: TestEngine + PhasedSql>(database: &TestDatabase<DB>, bank: &Bank<DB>, item: &str) {
    let mut run = first(&phased(), database, item).await;
    let External::Todo(attempt) = run.external::<String, _>("charge", Hold).await.unwrap() else { panic!("a call") };
    bank.charge(attempt.provider_key().as_str(), item, Manner::ChargesInSilence).await;
    attempt.unknown();
    drop(run);
    end_leases(database).await;
}

/// The same, held.
async fn hold<DB: TestEngine + PhasedSql>(database: &TestDatabase<DB>, bank: &Bank<DB>, item: &str) -> Unknown {
    die_in_the_call(database, bank, item).await;
    let mut run = first(&phased(), database, item).await;
    match run.external::<String, _>("charge", Hold).await.unwrap() {
        External::Held(unknown) => unknown,
        other => panic!("{other:?}"),
    }
}

async fn repeat<DB: TestEngine + PhasedSql>(database: &TestDatabase<DB>, item: &str) -> PhasedBegin<DB, String> {
    let key = key(&Call::new(item, "lamp"));
    phased().begin(&database.pool, &key, &fingerprint("lamp")).await.unwrap()
}

/// What the step comes to by a policy, after a death in the call: a word, and how often the bank was called.
async fn by_policy<DB: TestEngine + PhasedSql, P: Policy<String>>(
    database: &TestDatabase<DB>,
    bank: &Bank<DB>,
    item: &str,
    policy: P,
) -> &'static str {
    die_in_the_call(database, bank, item).await;
    let mut run: Run<DB, String> = first(&phased(), database, item).await;
    match run.external::<String, _>("charge", policy).await.unwrap() {
        External::Todo(attempt) => {
            assert_eq!(attempt.number(), 2);
            "again"
        }
        External::Done(receipt) => {
            assert_eq!(receipt, "receipt");
            "done"
        }
        External::Failed(failure) => {
            assert_eq!(failure.reason::<String>().unwrap(), "declined");
            "failed"
        }
        External::Held(unknown) => {
            assert_eq!(unknown.step.expect("the step").name, "charge");
            "held"
        }
    }
}

pub(crate) async fn policy_decides_what_is_done_about_the_unknown<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, bank) = tables(database).await;
    let said = |verdict: Verdict<String>| {
        Reconcile(move |_: ProviderKey| {
            let verdict = verdict.clone();
            async move { verdict }
        })
    };
    let (database, bank) = (&database, &bank);
    assert_eq!(by_policy(database, bank, "k1", RetryWithSameKey).await, "again");
    assert_eq!(by_policy(database, bank, "k2", Hold).await, "held");
    assert_eq!(by_policy(database, bank, "k3", said(Verdict::Done("receipt".to_owned()))).await, "done");
    assert_eq!(by_policy(database, bank, "k4", said(Verdict::NotDone)).await, "again");
    assert_eq!(by_policy(database, bank, "k5", said(Verdict::failed(&"declined").unwrap())).await, "failed");

    // A provider that does not know is asked as often as the settings say, and then the key is held.
    let asked = Arc::new(AtomicU32::new(0));
    let asks = Arc::clone(&asked);
    let unsure = Reconcile(move |_: ProviderKey| {
        asks.fetch_add(1, Ordering::SeqCst);
        async { Verdict::StillUnknown }
    });
    assert_eq!(by_policy(database, bank, "k6", unsure).await, "held");
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

pub(crate) async fn i16_silent_provider_is_called_within_the_limit_and_then_held<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, bank) = tables(database).await;
    let mut run = first(&phased(), &database, "k1").await;
    let mut calls = 0;
    let unknown = loop {
        match run.external::<String, _>("charge", RetryWithSameKey).await.unwrap() {
            External::Todo(attempt) => {
                calls += 1;
                bank.charge(attempt.provider_key().as_str(), "k1", Manner::ChargesInSilence).await;
                // Dropped: a time-out is not an answer.
            }
            External::Held(unknown) => break unknown,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((calls, charges(&database).await), (3, 1));
    assert!(unknown.held_because.expect("a reason").contains("charge"));
    assert!(matches!(repeat(&database, "k1").await, PhasedBegin::Unknown(_)));
}

pub(crate) async fn call_that_was_never_sent_is_free_to_be_made<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, _bank) = tables(database).await;
    let mut run = first(&phased(), &database, "k1").await;
    let External::Todo(attempt) = run.external::<String, _>("charge", Hold).await.unwrap() else { panic!("a call") };
    attempt.not_sent().await.unwrap();
    let again = run.external::<String, _>("charge", Hold).await.unwrap();
    assert!(matches!(again, External::Todo(_)), "{again:?}");
    // The double says nothing of it, and is held.
    drop(run);
    end_leases(&database).await;
    let mut run = first(&phased(), &database, "k1").await;
    assert!(matches!(run.external::<String, _>("charge", Hold).await.unwrap(), External::Held(_)));
}

pub(crate) async fn attempts_without_an_effect_are_bounded_too_and_an_operator_begins_the_count_anew<
    DB: TestEngine + PhasedSql,
>(
    database: TestDatabase<DB>,
) {
    /// Asks for the step until it is held, or more often than the limit: how often it was called.
    async fn calls<DB: TestEngine + PhasedSql>(run: &mut Run<DB, String>, leaves: bool) -> (u32, Option<Unknown>) {
        for calls in 0..10 {
            let not_done = Reconcile(|_: ProviderKey| async { Verdict::<String>::NotDone });
            match run.external::<String, _>("charge", not_done).await.unwrap() {
                External::Todo(attempt) if leaves => attempt.unknown(),
                External::Todo(attempt) => attempt.not_sent().await.unwrap(),
                External::Held(unknown) => return (calls, Some(unknown)),
                other => panic!("{other:?}"),
            }
        }
        (10, None)
    }
    let (database, _bank) = tables(database).await;
    for (item, leaves) in [("k1", false), ("k2", true)] {
        let mut run = first(&phased(), &database, item).await;
        let (called, unknown) = calls(&mut run, leaves).await;
        let unknown = unknown.expect("it is held");
        assert_eq!((called, &unknown.step), (3, &None), "{item}: no call is unknown");
        assert!(unknown.held_because.as_ref().is_some_and(|because| because.contains("charge")), "{unknown:?}");
        let resumed = phased().resolve(&database.pool, &unknown, Resolution::resumed(), "ops", "it is up again").await;
        assert_eq!(resumed.unwrap(), Resolved::Applied);
        let mut run = first(&phased(), &database, item).await;
        assert_eq!(calls(&mut run, leaves).await.0, 3, "{item}");
    }
    // The double has no limit.
    let boundless = Phased::builder().max_attempts(u32::MAX).backoff(Backoff::new(Duration::ZERO, Duration::ZERO));
    let mut run = first(&boundless.build().unwrap(), &database, "k3").await;
    assert_eq!(calls(&mut run, false).await.0, 10);
}

pub(crate) async fn compensation_that_is_refused_is_held_and_finished_by_an_operator<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, _bank) = tables(database).await;
    let pool = &database.pool;
    let refused = || Reconcile(|_: ProviderKey| async { Verdict::<String>::failed(&"account closed").unwrap() });
    let back = async |item: &str| {
        let mut run = first(&phased(), &database, item).await;
        let charge = run.external::<String, _>("charge", Hold).compensated_by("refund").await.unwrap();
        if let External::Todo(attempt) = charge {
            attempt.done("receipt".to_owned()).await.unwrap();
        }
        run.compensate("out of stock").await.unwrap();
        run
    };
    let mut run = back("k1").await;
    assert!(matches!(run.external::<String, _>("refund", refused()).await.unwrap(), External::Todo(_)));
    let held = run.external::<String, _>("refund", refused()).await.unwrap();
    let External::Held(unknown) = held else { panic!("it can neither be skipped nor be done: {held:?}") };
    assert_eq!(unknown.step.as_ref().map(|step| step.name.as_str()), Some("refund"));
    let by_transfer = Resolution::step_done(&"by transfer").unwrap();
    assert_eq!(phased().resolve(pool, &unknown, by_transfer, "ops", "wired").await.unwrap(), Resolved::Applied);
    first(&phased(), &database, "k1").await.complete("refunded".to_owned()).await.unwrap();

    // The double: recorded as refused, as a step that has an alternative. It is read as what it is.
    let mut run = back("k2").await;
    assert!(matches!(run.external::<String, _>("refund", Hold).await.unwrap(), External::Todo(_)));
    let double = run.complete("refunded".to_owned()).await;
    assert!(matches!(double, Err(Error::Step { .. })), "{double:?}");
    let read = "SELECT step_data FROM leastlock_idempotency WHERE idempotency_key = 'k2'";
    let mut connection = pool.acquire().await.unwrap();
    let steps = Statement::new(read).fetch_one::<DB>(&mut connection).await.unwrap().bytes(0).unwrap();
    let steps = String::from_utf8(steps).unwrap().replace("\"started\"", "\"failed\"");
    let write = sql::<DB>(
        "UPDATE leastlock_idempotency SET step_data = $1 WHERE idempotency_key = $2",
        "UPDATE leastlock_idempotency SET step_data = ? WHERE idempotency_key = ?",
    );
    let write = Statement::new(write).bind(steps.as_bytes()).bind("k2");
    assert_eq!(write.execute::<DB>(&mut connection).await.unwrap(), 1);
    drop(connection);
    end_leases(&database).await;
    let mut run = back("k2").await;
    let held = run.external::<String, _>("refund", Hold).await.unwrap();
    assert!(matches!(held, External::Held(_)), "{held:?}");
}

pub(crate) async fn i16_call_that_never_left_says_nothing_of_an_earlier_one<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, bank) = tables(database).await;
    die_in_the_call(&database, &bank, "k1").await;
    let mut run = first(&phased(), &database, "k1").await;
    let again = run.external::<String, _>("charge", RetryWithSameKey).await.unwrap();
    let External::Todo(attempt) = again else { panic!("{again:?}") };
    attempt.not_sent().await.unwrap();
    // Who may free the key, or go on past the step, forgets the charge.
    let freed = run.release().await;
    assert!(matches!(freed, Err(Error::Step { source: StepError::Open { .. } })), "{freed:?}");
    end_leases(&database).await;
    let mut run = first(&phased(), &database, "k1").await;
    let held = run.external::<String, _>("charge", Hold).await.unwrap();
    assert!(matches!(held, External::Held(_)), "{held:?}");
    assert_eq!(charges(&database).await, 1);
}

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
    let (database, bank) = tables(database).await;
    let (pool, phased) = (&database.pool, phased());
    let outcomes = [
        ("k1", Resolution::step_done(&"receipt").unwrap()),
        ("k2", Resolution::step_not_done()),
        ("k3", Resolution::step_failed(Failure::of(&"declined").unwrap())),
        ("k4", Resolution::released()),
    ];
    for (item, resolution) in outcomes {
        let mut late = first(&phased, &database, item).await;
        let External::Todo(attempt) = late.external::<String, _>("charge", Hold).await.unwrap() else {
            panic!("a call")
        };
        end_leases(&database).await;
        let listed = phased.list_unknown(pool, Duration::ZERO, 10).await.unwrap();
        let unknown = listed.iter().find(|unknown| unknown.key.as_str() == item).expect("it is listed").clone();
        assert_eq!(unknown.step.as_ref().map(|step| step.name.as_str()), Some("charge"));

        // The owner was late and not dead: it goes on under its generation, and dies in the next call.
        bank.charge(attempt.provider_key().as_str(), item, Manner::Answers).await;
        attempt.done("receipt".to_owned()).await.unwrap();
        assert!(matches!(late.external::<String, _>("ship", Hold).await.unwrap(), External::Todo(_)));
        drop(late);
        end_leases(&database).await;
        let resolved = phased.resolve(pool, &unknown, resolution.clone(), "ops", "seen").await.unwrap();
        assert_eq!(resolved, Resolved::Changed, "{item}");

        // The double goes by the generation alone: what the operator saw, with the record's present numbers.
        let listed = phased.list_unknown(pool, Duration::ZERO, 10).await.unwrap();
        let by_generation = listed.iter().find(|unknown| unknown.key.as_str() == item).expect("it is listed").clone();
        assert_eq!(by_generation.generation, unknown.generation, "a generation does not tell them apart");
        assert_eq!(by_generation.step.as_ref().map(|step| step.name.as_str()), Some("ship"));
        let settled = phased.resolve(pool, &by_generation, resolution, "ops", "seen").await.unwrap();
        assert_eq!(settled, Resolved::Applied, "the double settles the step that nobody has looked into");
    }

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

//! What is unknown is visible, is settled by a definite word only, and by whom is on record.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leastlock_core::{Backoff, Statement};
use leastlock_idempotency::Error;
use leastlock_idempotency::phased::{
    External, Hold, Phased, PhasedBegin, PhasedSql, Policy, ProviderKey, Reconcile, Resolution, Resolved,
    RetryWithSameKey, Run, StepError, Unknown, Verdict,
};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::bank::{Bank, Manner, charges};
use crate::payer::{Call, end_leases, fingerprint, key, tables};
use crate::steps::{first, phased};

/// Calls the bank, whose answer is lost, and dies; `item` is the key as well.
pub(crate) async fn die_in_the_call<DB: TestEngine + PhasedSql>(
    database: &TestDatabase<DB>,
    bank: &Bank<DB>,
    item: &str,
) {
    let mut run = first(&phased(), database, item).await;
    let External::Todo(attempt) = run.external::<String, _>("charge", Hold).await.unwrap() else { panic!("a call") };
    bank.charge(attempt.provider_key().as_str(), item, Manner::ChargesInSilence).await;
    attempt.unknown();
    drop(run);
    end_leases(database).await;
}

/// The same, held.
pub(crate) async fn hold<DB: TestEngine + PhasedSql>(
    database: &TestDatabase<DB>,
    bank: &Bank<DB>,
    item: &str,
) -> Unknown {
    die_in_the_call(database, bank, item).await;
    let mut run = first(&phased(), database, item).await;
    match run.external::<String, _>("charge", Hold).await.unwrap() {
        External::Held(unknown) => unknown,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn repeat<DB: TestEngine + PhasedSql>(
    database: &TestDatabase<DB>,
    item: &str,
) -> PhasedBegin<DB, String> {
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

    // The double passes over what was refused, as over a step that has an alternative: its key is not completed.
    let mut run = back("k2").await;
    assert!(matches!(run.external::<String, _>("refund", Hold).await.unwrap(), External::Todo(_)));
    let double = run.complete("refunded".to_owned()).await;
    assert!(matches!(double, Err(Error::Step { .. })), "{double:?}");
    // Nor where a program records it as refused for good: it is read as what it is, not done.
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

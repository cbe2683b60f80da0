//! Steps: what is done stays done, what comes late changes nothing, what was done is undone in reverse.

use std::time::{Duration, Instant};

use leastlock_core::Statement;
use leastlock_idempotency::phased::{
    External, Failure, Hold, Local, Phased, PhasedBegin, PhasedSql, ProviderKey, Reconcile, RecoveryPoint,
    RetryWithSameKey, Run, StepError, Verdict,
};
use leastlock_idempotency::{Error, Keys};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::bank::{Bank, Heard, Manner, charges};
use crate::payer::{Call, Product, effects, end_leases, fingerprint, insert_effect, key, tables};

/// How long something may take that has to come.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn phased() -> Phased {
    Product::retrying().phased
}

pub(crate) async fn first<DB: PhasedSql>(phased: &Phased, database: &TestDatabase<DB>, name: &str) -> Run<DB, String>
where
    DB: TestEngine,
{
    let begun = phased.begin(&database.pool, &key(&Call::new(name, "lamp")), &fingerprint("lamp")).await.unwrap();
    match begun {
        PhasedBegin::First(run) => run,
        other => panic!("{name} is no first: {other:?}"),
    }
}

/// A local step that inserts an effect of its own name.
pub(crate) async fn note<DB: TestEngine + PhasedSql>(
    run: &mut Run<DB, String>,
    step: &str,
    undo: Option<&str>,
) -> Result<(), Error> {
    let call = run.local::<()>(step);
    let call = match undo {
        Some(undo) => call.compensated_by(undo),
        None => call,
    };
    if let Local::Todo(mut todo) = call.await? {
        insert_effect::<DB>(todo.tx(), step).await;
        todo.done(()).await?;
    }
    Ok(())
}

pub(crate) async fn i2_late_owner_can_neither_step_nor_renew_nor_end<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, bank) = tables(database).await;
    let phased = phased();
    for way in ["local", "external", "renew", "release", "hold", "complete", "done"] {
        let mut late = first(&phased, &database, way).await;
        let mut attempt = None;
        let mut open = first(&phased, &database, &format!("{way}-open")).await;
        if way == "done" {
            let External::Todo(todo) = open.external::<u32, _>("charge", Hold).await.unwrap() else { panic!("a call") };
            attempt = Some(todo);
        }
        end_leases(&database).await;
        let owner = first(&phased, &database, way).await;
        let _other = first(&phased, &database, &format!("{way}-open")).await;
        assert_eq!(owner.generation(), late.generation() + 1);
        let lost = late.lost();
        let refused = match way {
            "local" => note(&mut late, "reserve", None).await.unwrap_err(),
            "external" => late.external::<u32, _>("charge", Hold).await.unwrap_err(),
            "renew" => late.renew().await.unwrap_err(),
            "release" => late.release().await.unwrap_err(),
            "hold" => late.hold("late").await.unwrap_err(),
            "done" => {
                late.renew().await.unwrap_err();
                attempt.take().expect("the call").done(7).await.unwrap_err()
            }
            _ => late.complete("late".to_owned()).await.unwrap_err(),
        };
        assert!(matches!(refused, Error::Superseded), "{way}: {refused:?}");
        assert!(refused.is_retryable());
        tokio::time::timeout(PATIENCE, lost).await.expect("it is told that it lost");
        owner.complete("the owner's".to_owned()).await.unwrap();
    }
    assert_eq!((effects(&database).await, charges(&database).await), (0, 0), "a late step leaves nothing");
    drop(bank);

    // The double: the same local step, committed without the fence.
    let _late = first(&phased, &database, "double").await;
    end_leases(&database).await;
    let _owner = first(&phased, &database, "double").await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    insert_effect::<DB>(&mut tx, "double").await;
    tx.commit().await.unwrap();
    assert_eq!(effects(&database).await, 1, "the double's late effect is there");
}

pub(crate) async fn step_that_is_done_gives_its_result_and_is_not_run_again<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, bank) = tables(database).await;
    let phased = phased();
    let mut run = first(&phased, &database, "k1").await;
    assert_eq!(run.resumed_at(), None);
    note(&mut run, "reserve", None).await.unwrap();
    let External::Todo(attempt) = run.external::<(String, u32), _>("charge", Hold).await.unwrap() else {
        panic!("a call")
    };
    assert_eq!(bank.charge(attempt.provider_key().as_str(), "k1", Manner::Answers).await, Heard::Receipt);
    attempt.done(("receipt".to_owned(), 42)).await.unwrap();
    drop(run);
    end_leases(&database).await;

    let mut run = first(&phased, &database, "k1").await;
    assert_eq!(run.resumed_at(), Some(&RecoveryPoint::After { step: "charge".to_owned() }));
    note(&mut run, "reserve", None).await.unwrap();
    let charge = run.external::<(String, u32), _>("charge", Hold).await.unwrap();
    assert!(matches!(charge, External::Done((receipt, 42)) if receipt == "receipt"));
    assert_eq!(run.result_of::<(String, u32)>("charge").unwrap(), Some(("receipt".to_owned(), 42)));
    assert_eq!((effects(&database).await, charges(&database).await), (1, 1));

    // A step that was rolled back is not in the record.
    let Local::Todo(mut step) = run.local::<u32>("ship").await.unwrap() else { panic!("to be done") };
    insert_effect::<DB>(step.tx(), "ship").await;
    drop(step);
    assert_eq!(effects(&database).await, 1);
    let moved = run.local::<u32>("reserve").await.unwrap_err();
    assert!(matches!(moved, Error::Step { source: StepError::Duplicate { .. } }), "{moved:?}");
    run.complete("done".to_owned()).await.unwrap();
}

pub(crate) async fn compensations_run_in_reverse_and_go_on_after_a_crash<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, bank) = tables(database).await;
    let phased = phased();
    let mut refunds = Vec::new();
    for crashes in [true, false] {
        let mut run = first(&phased, &database, "k1").await;
        note(&mut run, "reserve", Some("unreserve")).await.unwrap();
        if let External::Todo(attempt) =
            run.external::<u32, _>("charge", RetryWithSameKey).compensated_by("refund").await.unwrap()
        {
            bank.charge(attempt.provider_key().as_str(), "k1", Manner::Answers).await;
            attempt.done(42).await.unwrap();
        }
        note(&mut run, "label", Some("void-label")).await.unwrap();
        let reason: String = match run.external::<u32, _>("ship", RetryWithSameKey).await.unwrap() {
            External::Todo(attempt) => attempt.failed(&"no such street").await.unwrap().reason().unwrap(),
            External::Failed(failure) => failure.reason().unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(reason, "no such street");
        run.compensate(&reason).await.unwrap();
        assert_eq!(run.turned_back(), Some("no such street"));
        while let Some(step) = run.next_compensation().map(str::to_owned) {
            if step == "refund" {
                let charged: u32 = run.result_of("charge").unwrap().unwrap();
                assert_eq!(charged, 42);
                match run.external::<(), _>(&step, RetryWithSameKey).await.unwrap() {
                    External::Todo(attempt) => {
                        refunds.push(attempt.provider_key().clone());
                        bank.charge(attempt.provider_key().as_str(), "refund", Manner::Answers).await;
                        if crashes {
                            break;
                        }
                        attempt.done(()).await.unwrap();
                    }
                    other => panic!("{other:?}"),
                }
            } else {
                note(&mut run, &step, None).await.unwrap();
            }
        }
        if crashes {
            drop(run);
            end_leases(&database).await;
        } else {
            run.complete("could not be shipped".to_owned()).await.unwrap();
        }
    }
    assert_eq!(refunds[0], refunds[1], "a compensation has one provider key too");
    let order = Statement::new("SELECT item FROM effect");
    let mut connection = database.pool.acquire().await.unwrap();
    let rows = order.fetch_all::<DB>(&mut connection).await.unwrap();
    let order: Vec<_> = rows.iter().map(|row| row.text(0).unwrap()).collect();
    assert_eq!(order, ["reserve", "label", "void-label", "unreserve"]);
    assert_eq!(charges(&database).await, 2, "one charge and one refund");
}

pub(crate) async fn end_that_would_forget_an_effect_is_refused<DB: TestEngine + PhasedSql>(database: TestDatabase<DB>) {
    let (database, _bank) = tables(database).await;
    let phased = phased();
    let refused = |error: Error| match error {
        Error::Step { source } => source,
        other => panic!("{other:?}"),
    };
    // A call that was started may have happened.
    let mut run = first(&phased, &database, "k1").await;
    assert!(matches!(run.external::<u32, _>("charge", Hold).await.unwrap(), External::Todo(_)));
    let compensate = refused(run.compensate("no").await.unwrap_err());
    assert!(matches!(compensate, StepError::Open { .. }), "{compensate:?}");
    assert!(matches!(refused(run.local::<u32>("ship").await.unwrap_err()), StepError::Open { .. }));
    assert!(matches!(refused(run.release().await.unwrap_err()), StepError::Open { .. }));
    end_leases(&database).await;
    let run = first(&phased, &database, "k1").await;
    assert!(matches!(refused(run.complete("done".to_owned()).await.unwrap_err()), StepError::Open { .. }));

    let mut run = first(&phased, &database, "k2").await;
    note(&mut run, "reserve", Some("unreserve")).await.unwrap();
    run.compensate("no").await.unwrap();
    let forward = refused(run.local::<u32>("ship").await.unwrap_err());
    assert!(
        matches!(forward, StepError::RunsBack { expected: Some(ref step), .. } if step == "unreserve"),
        "{forward:?}"
    );
    let early = refused(run.complete("no".to_owned()).await.unwrap_err());
    assert!(matches!(early, StepError::CompensationPending { .. }), "{early:?}");
    end_leases(&database).await;
    let mut run = first(&phased, &database, "k2").await;
    assert_eq!(run.turned_back(), Some("no"), "it is recorded");
    note(&mut run, "unreserve", None).await.unwrap();
    run.release().await.unwrap();
    assert_eq!(first(&phased, &database, "k2").await.generation(), 1, "the key is free");

    let mut run = first(&phased, &database, "k3").await;
    note(&mut run, "reserve", None).await.unwrap();
    assert!(matches!(refused(run.release().await.unwrap_err()), StepError::EffectsRemain { .. }));
}

pub(crate) async fn request_that_has_expired_starts_no_step_and_still_goes_back<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    async fn begin<DB: TestEngine + PhasedSql>(database: &TestDatabase<DB>, name: &str) -> Run<DB, String> {
        let (key, hour) = (key(&Call::new(name, "lamp")), Duration::from_hours(1));
        let begun = phased().begin_within(&database.pool, &key, &fingerprint("lamp"), hour).await.unwrap();
        let PhasedBegin::First(run) = begun else { panic!("a first: {begun:?}") };
        run
    }
    let (database, _bank) = tables(database).await;
    let expire = "UPDATE leastlock_idempotency SET start_by = created_at";
    let mut run = begin(&database, "k1").await;
    note(&mut run, "reserve", Some("unreserve")).await.unwrap();
    let External::Todo(attempt) = run.external::<u32, _>("charge", Hold).compensated_by("refund").await.unwrap() else {
        panic!("in time");
    };
    database.execute(expire).await;
    attempt.done(42).await.unwrap();
    let late = [run.external::<u32, _>("ship", Hold).await.err(), note(&mut run, "label", None).await.err()];
    assert!(late.iter().all(|error| matches!(error, Some(Error::RequestExpired))), "{late:?}");
    drop(run);
    end_leases(&database).await;

    // Whoever takes over is bound by it too, and can go back.
    let mut run = first(&phased(), &database, "k1").await;
    note(&mut run, "reserve", Some("unreserve")).await.unwrap();
    assert!(matches!(run.external::<u32, _>("charge", Hold).await.unwrap(), External::Done(42)));
    assert!(matches!(run.external::<u32, _>("ship", Hold).await, Err(Error::RequestExpired)));
    run.compensate("expired").await.unwrap();
    let External::Todo(refund) = run.external::<(), _>("refund", Hold).await.unwrap() else { panic!("it has to") };
    refund.done(()).await.unwrap();
    note(&mut run, "unreserve", None).await.unwrap();
    run.complete("expired".to_owned()).await.unwrap();
    assert_eq!(effects(&database).await, 2);
}

pub(crate) async fn sweep_leaves_what_is_not_finished<DB: TestEngine + PhasedSql>(database: TestDatabase<DB>) {
    let (database, _bank) = tables(database).await;
    let phased = phased();
    let _running = first(&phased, &database, "running").await;
    first(&phased, &database, "held").await.hold("no answer").await.unwrap();
    first(&phased, &database, "completed").await.complete("done".to_owned()).await.unwrap();
    end_leases(&database).await;
    let keys = Keys::default();
    assert_eq!(keys.sweep(&database.pool, 10).await.unwrap(), 0);
    database.execute("UPDATE leastlock_idempotency SET expires_at = created_at WHERE state = 'completed'").await;
    assert_eq!(keys.sweep(&database.pool, 10).await.unwrap(), 1);
    assert_eq!(database.int("SELECT count(*) FROM leastlock_idempotency").await, 2);
    // The double: a sweep by age, whatever the state.
    database.execute("UPDATE leastlock_idempotency SET expires_at = created_at").await;
    assert_eq!(keys.sweep(&database.pool, 10).await.unwrap(), 2, "an end in the record is what the sweep goes by");
}

pub(crate) async fn i10_lease_is_renewed_as_long_as_the_run_exists_and_no_longer<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    /// Whether a key is taken over within three leases during which its owner does nothing.
    async fn is_taken<DB: TestEngine + PhasedSql>(
        phased: &Phased,
        database: &TestDatabase<DB>,
        name: &str,
        patience: Duration,
    ) -> bool {
        let (key, lamp, until) = (key(&Call::new(name, "lamp")), fingerprint("lamp"), Instant::now() + patience);
        while Instant::now() < until {
            match phased.begin::<DB, String>(&database.pool, &key, &lamp).await.unwrap() {
                PhasedBegin::First(_) => return true,
                PhasedBegin::InFlight { .. } => tokio::time::sleep(Duration::from_millis(20)).await,
                other => panic!("{other:?}"),
            }
        }
        false
    }
    let (database, _bank) = tables(database).await;
    // Long enough for a renewal on a machine that is busy with other tests.
    let lease = Duration::from_secs(3);
    let renewed = Phased::builder().lease(lease).build().unwrap();
    let run = first(&renewed, &database, "renewed").await;
    assert!(!is_taken(&renewed, &database, "renewed", lease * 2).await);
    assert!(!run.remaining().is_zero());
    drop(run);
    assert!(is_taken(&renewed, &database, "renewed", PATIENCE).await, "its renewal ended with the run");

    let unrenewed = Phased::builder().lease(lease).renewed(false).build().unwrap();
    let _run = first(&unrenewed, &database, "unrenewed").await;
    assert!(is_taken(&unrenewed, &database, "unrenewed", PATIENCE).await, "the double's owner is at work");
}

pub(crate) async fn failure_keeps_its_reason_and_the_wait_its_bound<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, bank) = tables(database).await;
    let failure = Failure::of(&("card", 51)).unwrap();
    assert_eq!(failure.reason::<(String, u32)>().unwrap(), ("card".to_owned(), 51));
    let phased = Phased::builder().max_step_bytes(200).max_response_bytes(10).max_steps(2).build().unwrap();
    let mut run = first(&phased, &database, "k1").await;
    let External::Todo(attempt) = run.external::<String, _>("charge", Hold).await.unwrap() else { panic!("a call") };
    bank.charge(attempt.provider_key().as_str(), "k1", Manner::Answers).await;
    let large = attempt.done("x".repeat(300)).await.unwrap_err();
    assert!(matches!(large, Error::Step { source: StepError::TooLarge { limit: 200, .. } }), "{large:?}");
    let External::Held(unknown) = run.external::<String, _>("charge", Hold).await.unwrap() else { panic!("unknown") };
    assert_eq!(unknown.step.as_ref().map(|step| step.name.as_str()), Some("charge"));
    assert!(matches!(run.renew().await, Err(Error::Held | Error::Superseded)));
    assert!(matches!(run.complete("ok".to_owned()).await, Err(Error::Held)));
    let run = first(&phased, &database, "k2").await;
    let large = run.complete("x".repeat(20)).await.unwrap_err();
    assert!(matches!(large, Error::ResponseTooLarge { bytes: 22, limit: 10 }), "{large:?}");
}

/// It compiles: a run goes into a task, with all of its kinds of steps.
pub(crate) async fn run_is_at_home_in_a_spawned_task<DB: TestEngine + PhasedSql>(database: TestDatabase<DB>) {
    let (database, bank) = tables(database).await;
    let run = first(&phased(), &database, "k1").await;
    let task = tokio::spawn(pay(run, bank));
    assert_eq!(task.await.unwrap().unwrap(), "paid");
}

async fn pay<DB: TestEngine + PhasedSql>(mut run: Run<DB, String>, bank: Bank<DB>) -> Result<String, Error> {
    note(&mut run, "reserve", Some("unreserve")).await?;
    let ask = bank.again();
    let reconcile = Reconcile(move |key: ProviderKey| {
        let bank = ask.again();
        async move { if bank.has(key.as_str()).await { Verdict::Done(1) } else { Verdict::StillUnknown } }
    });
    match run.external::<u32, _>("charge", reconcile).await? {
        External::Todo(attempt) => {
            bank.charge(attempt.provider_key().as_str(), "k1", Manner::Answers).await;
            attempt.done(1).await?;
        }
        External::Done(_) => {}
        External::Failed(_) | External::Held(_) => return Ok("not paid".to_owned()),
    }
    run.complete("paid".to_owned()).await
}

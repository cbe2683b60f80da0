//! How a run ends, what it may not end in, and how the modes meet.

use std::time::{Duration, Instant};

use leastlock_core::Engine;
use leastlock_idempotency::phased::{
    External, Failure, Hold, Phased, PhasedBegin, PhasedSql, ProviderKey, Reconcile, Run, StepError, Verdict,
};
use leastlock_idempotency::{Begin, BeginIn, Error, HttpResponse, Keys};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::bank::{Bank, Manner};
use crate::payer::{Call, end_leases, fingerprint, key, tables};
use crate::steps::{first, note, phased};

/// How long something may take that has to come.
const PATIENCE: Duration = Duration::from_secs(30);

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
    // The double: a sweep by age, whatever the state, once all are old.
    database.execute("DELETE FROM leastlock_idempotency WHERE created_at IS NOT NULL").await;
    assert_eq!(database.int("SELECT count(*) FROM leastlock_idempotency").await, 0, "it forgets what it must not");
    let freed =
        phased.begin::<DB, String>(&database.pool, &key(&Call::new("held", "lamp")), &fingerprint("lamp")).await;
    assert!(matches!(freed.unwrap(), PhasedBegin::First(_)), "and what was unknown is run again");
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
    // The double has no such limits.
    let mut run = first(&self::phased(), &database, "k3").await;
    let External::Todo(attempt) = run.external::<String, _>("charge", Hold).await.unwrap() else { panic!("a call") };
    attempt.done("x".repeat(300)).await.unwrap();
    run.complete("x".repeat(20)).await.unwrap();
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

pub(crate) async fn modes_meet_in_one_record_and_neither_runs_the_others_request<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, _bank) = tables(database).await;
    let (pool, keys, phased, lamp) = (&database.pool, Keys::default(), phased(), fingerprint("lamp"));
    let key = |name| key(&Call::new(name, "lamp"));
    let transactional = async |name| keys.begin::<DB, String>(pool, &key(name), &lamp).await;

    // At work, left by its owner, and held: the transactional mode leaves it alone.
    let running = first(&phased, &database, "k1").await;
    assert!(matches!(transactional("k1").await, Err(Error::Phased)));
    end_leases(&database).await;
    let left = transactional("k1").await.unwrap_err();
    assert!(matches!(left, Error::Phased) && left.is_retryable(), "{left:?}");
    let other = keys.begin::<DB, String>(pool, &key("k1"), &fingerprint("rug")).await.unwrap();
    assert!(matches!(other, Begin::Mismatch));
    first(&phased, &database, "k2").await.hold("no answer").await.unwrap();
    assert!(matches!(transactional("k2").await, Err(Error::Phased)));
    running.complete("phased".to_owned()).await.unwrap();
    assert!(matches!(transactional("k1").await.unwrap(), Begin::Replay(answer) if answer == "phased"));

    // The other way round: at work (which SQLite's one lock tells of by itself), committed without an answer, answered.
    let begin = async |name| phased.begin::<DB, String>(pool, &key(name), &lamp).await;
    let Begin::First(unit) = transactional("k3").await.unwrap() else { panic!("a first") };
    if DB::ENGINE != Engine::Sqlite {
        let meanwhile = begin("k3").await.unwrap();
        assert!(matches!(meanwhile, PhasedBegin::InFlight { .. }), "{meanwhile:?}");
    }
    unit.complete("transactional".to_owned()).await.unwrap();
    assert!(matches!(begin("k3").await.unwrap(), PhasedBegin::Replay(answer) if answer == "transactional"));
    let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    let claim = keys.begin_in::<DB, String>(&mut tx, &key("k4"), &lamp).await.unwrap();
    assert!(matches!(claim, BeginIn::First(_)));
    tx.commit().await.unwrap();
    assert!(matches!(begin("k4").await, Err(Error::CommittedWithoutAnswer)));

    // The double keeps a record for each mode: the request runs in both.
    let _running = first(&phased, &database, "k5").await;
    let apart = crate::payer::key(&Call::new("k5", "lamp").within("pay-transactionally"));
    let double = keys.begin::<DB, String>(pool, &apart, &lamp).await.unwrap();
    assert!(matches!(double, Begin::First(_)), "the double must be seen to run twice");
}

pub(crate) async fn http_response_is_replayed_byte_for_byte<DB: TestEngine + PhasedSql>(database: TestDatabase<DB>) {
    let (database, _bank) = tables(database).await;
    let headers = vec![("Location".to_owned(), b"/payments/7".to_vec()), ("location".to_owned(), b"\xe9".to_vec())];
    let answer = HttpResponse::new(201, headers, vec![0, 255, 10]).unwrap();
    let begin = async |name: &str| {
        let key = key(&Call::new(name, "lamp"));
        phased().begin::<DB, HttpResponse>(&database.pool, &key, &fingerprint("lamp")).await.unwrap()
    };
    // What a repeat gets, where `kept` is what was completed.
    let replayed = async |name: &str, kept: HttpResponse| {
        let PhasedBegin::First(run) = begin(name).await else { panic!("a first") };
        run.complete(kept).await.unwrap();
        let PhasedBegin::Replay(replayed) = begin(name).await else { panic!("a replay") };
        replayed
    };
    assert_eq!(replayed("k1", answer.clone()).await, answer);
    // The doubles: one keeps its body as text, one its headers under one spelling of each name.
    let text = String::from_utf8_lossy(answer.body()).into_owned();
    let as_text = HttpResponse::new(201, answer.headers().to_vec(), text.into_bytes()).unwrap();
    assert_ne!(replayed("k2", as_text).await, answer);
    let lower = answer.headers().iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
    assert_ne!(replayed("k3", HttpResponse::new(201, lower, answer.body().to_vec()).unwrap()).await, answer);
}

//! Requests that expire: no step starts late, what has started is not forgotten, and the way back is open.

use std::time::Duration;

use leastlock_core::Engine;
use leastlock_idempotency::Error;
use leastlock_idempotency::phased::{
    External, Hold, PhasedBegin, PhasedSql, Resolution, Resolved, RetryWithSameKey, Run, StepError,
};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::bank::{Manner, charges};
use crate::payer::{Call, effects, end_leases, fingerprint, key, tables};
use crate::steps::{first, note, phased};
use crate::unknown::repeat;

/// For a request that expires.
async fn begin_within_an_hour<DB: TestEngine + PhasedSql>(database: &TestDatabase<DB>, name: &str) -> Run<DB, String> {
    let (key, hour) = (key(&Call::new(name, "lamp")), Duration::from_hours(1));
    let begun = phased().begin_within(&database.pool, &key, &fingerprint("lamp"), hour).await.unwrap();
    let PhasedBegin::First(run) = begun else { panic!("a first: {begun:?}") };
    run
}

async fn expire<DB: TestEngine>(database: &TestDatabase<DB>) {
    database.execute("UPDATE leastlock_idempotency SET start_by = created_at").await;
}

pub(crate) async fn request_that_expires_with_a_call_unknown_is_held_and_not_said_to_have_not_started<
    DB: TestEngine + PhasedSql,
>(
    database: TestDatabase<DB>,
) {
    let (database, bank) = tables(database).await;
    let mut run = begin_within_an_hour(&database, "k1").await;
    let External::Todo(attempt) = run.external::<u32, _>("charge", RetryWithSameKey).await.unwrap() else {
        panic!("in time");
    };
    bank.charge(attempt.provider_key().as_str(), "k1", Manner::ChargesInSilence).await;
    attempt.unknown();
    expire(&database).await;
    let held = run.external::<u32, _>("charge", RetryWithSameKey).await;
    let Ok(External::Held(unknown)) = held else { panic!("it has charged, and may not be called again: {held:?}") };
    assert!(unknown.held_because.as_ref().is_some_and(|because| because.contains("expired")), "{unknown:?}");
    assert_eq!(unknown.step.as_ref().map(|step| step.name.as_str()), Some("charge"));

    assert!(matches!(repeat(&database, "k1").await, PhasedBegin::Unknown(_)), "nobody is told that it has expired");

    // Once it is known not to be done, it has not started and goes back.
    let resolution = Resolution::step_not_done();
    let resolved = phased().resolve(&database.pool, &unknown, resolution, "ops", "seen").await.unwrap();
    assert_eq!(resolved, Resolved::Applied);
    let mut run = first(&phased(), &database, "k1").await;
    let known = run.external::<u32, _>("charge", RetryWithSameKey).await;
    assert!(matches!(known, Err(Error::RequestExpired)), "{known:?}");
    run.compensate("expired").await.unwrap();
    run.complete("expired".to_owned()).await.unwrap();

    // The double goes by the clock alone: it says that nothing has happened, of what has charged.
    let mut run = begin_within_an_hour(&database, "double").await;
    let call = run.external::<u32, _>("charge", RetryWithSameKey).await.unwrap();
    let External::Todo(attempt) = call else { panic!("in time: {call:?}") };
    bank.charge(attempt.provider_key().as_str(), "double", Manner::ChargesInSilence).await;
    attempt.unknown();
    expire(&database).await;
    let by_the_clock = match DB::ENGINE {
        Engine::Postgres => {
            "UPDATE leastlock_idempotency SET state = 'completed', response_body = convert_to('\"expired\"', 'UTF8'), \
             expires_at = created_at + interval '1 day' WHERE start_by <= created_at AND state = 'running'"
        }
        Engine::MySql => {
            "UPDATE leastlock_idempotency SET state = 'completed', response_body = '\"expired\"', \
             expires_at = created_at + INTERVAL 1 DAY WHERE start_by <= created_at AND state = 'running'"
        }
        _ => {
            "UPDATE leastlock_idempotency SET state = 'completed', response_body = CAST('\"expired\"' AS BLOB), \
             expires_at = created_at + 86400000 WHERE start_by <= created_at AND state = 'running'"
        }
    };
    database.execute(by_the_clock).await;
    let told = repeat(&database, "double").await;
    assert!(matches!(&told, PhasedBegin::Replay(answer) if answer == "expired"), "{told:?}");
    assert_eq!(charges(&database).await, 2, "and it has charged");
}

pub(crate) async fn owner_that_died_on_its_way_back_is_followed_by_one_that_goes_on<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, _bank) = tables(database).await;
    let mut run = begin_within_an_hour(&database, "k1").await;
    note(&mut run, "reserve", Some("unreserve")).await.unwrap();
    note(&mut run, "label", Some("void-label")).await.unwrap();
    expire(&database).await;
    assert!(matches!(run.external::<u32, _>("charge", Hold).await, Err(Error::RequestExpired)));
    run.compensate("expired").await.unwrap();
    note(&mut run, "void-label", None).await.unwrap();
    drop(run);
    end_leases(&database).await;

    // The double walks the steps again, and waits for the error that led back: it never comes.
    let mut run = first(&phased(), &database, "k1").await;
    note(&mut run, "reserve", Some("unreserve")).await.unwrap();
    note(&mut run, "label", Some("void-label")).await.unwrap();
    let walked = run.external::<u32, _>("charge", Hold).await;
    assert!(matches!(walked, Err(Error::Step { source: StepError::RunsBack { .. } })), "{walked:?}");
    drop(run);
    end_leases(&database).await;

    let mut run = first(&phased(), &database, "k1").await;
    assert_eq!(run.turned_back(), Some("expired"));
    while let Some(step) = run.next_compensation().map(str::to_owned) {
        assert_eq!(step, "unreserve", "what is undone is not undone again");
        note(&mut run, &step, None).await.unwrap();
    }
    run.complete("expired".to_owned()).await.unwrap();
    assert_eq!(effects(&database).await, 4);
}

pub(crate) async fn request_that_has_expired_starts_no_step_and_still_goes_back<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, _bank) = tables(database).await;
    let mut run = begin_within_an_hour(&database, "k1").await;
    note(&mut run, "reserve", Some("unreserve")).await.unwrap();
    let External::Todo(attempt) = run.external::<u32, _>("charge", Hold).compensated_by("refund").await.unwrap() else {
        panic!("in time");
    };
    expire(&database).await;
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

    // The double looks at the time when it is called, and not again.
    let mut run = first(&phased(), &database, "double").await;
    expire(&database).await;
    let late = run.external::<u32, _>("ship", Hold).await.unwrap();
    assert!(matches!(late, External::Todo(_)), "the double must be seen to start late: {late:?}");
}

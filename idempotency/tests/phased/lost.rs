//! Replies that are lost: a time-out is not an answer, and what was written is found.

use std::time::Duration;

use leastlock_core::Statement;
use leastlock_idempotency::phased::{External, Hold, Local, PhasedBegin, PhasedSql, RecoveryPoint, Run};
use leastlock_testkit::proxy::{FaultProxy, Then, postgres};
use leastlock_testkit::{TestDatabase, TestEngine, until};
use sqlx::{Pool, Postgres};

use crate::bank::charges;
use crate::payer::{Call, effects, end_leases, fingerprint, insert_effect, key, tables};
use crate::steps::phased;

const LIMIT: Duration = Duration::from_secs(20);

async fn begin(pool: &Pool<Postgres>, name: &str) -> PhasedBegin<Postgres, String> {
    phased().begin(pool, &key(&Call::new(name, "lamp")), &fingerprint("lamp")).await.unwrap()
}

async fn first(pool: &Pool<Postgres>, name: &str) -> Run<Postgres, String> {
    match begin(pool, name).await {
        PhasedBegin::First(run) => run,
        other => panic!("{name} is no first: {other:?}"),
    }
}

/// The reply to the next statement that contains `text` is lost, after it took effect.
fn lose_reply(proxy: &FaultProxy, text: &'static str) {
    proxy.swallow_reply_to(postgres::once(move |sql: &str| sql.contains(text)), Then::Cut);
}

pub(crate) async fn claim_whose_reply_was_lost_is_found_to_be_ones_own(database: TestDatabase<Postgres>) {
    let (database, _bank) = tables(database).await;
    let proxy = FaultProxy::to_postgres(&database.url).await;
    let pool = Postgres::connect(&postgres::through(&proxy, &database.url)).await;
    lose_reply(&proxy, "INSERT INTO leastlock_idempotency");
    let run = first(&pool, "k1").await;
    proxy.fired(1, LIMIT).await;
    assert_eq!((run.generation(), run.resumed_at()), (1, None));
    // The double claims anew, as somebody else.
    assert!(matches!(begin(&pool, "k1").await, PhasedBegin::InFlight { .. }));

    end_leases(&database).await;
    lose_reply(&proxy, "SET owner_token = $1, generation = generation + 1");
    let run = first(&pool, "k1").await;
    proxy.fired(2, LIMIT).await;
    assert_eq!((run.generation(), run.resumed_at()), (2, Some(&RecoveryPoint::Start)), "somebody was here before");
}

pub(crate) async fn step_whose_commit_was_not_answered_is_settled_by_the_record(database: TestDatabase<Postgres>) {
    let (database, _bank) = tables(database).await;
    let proxy = FaultProxy::to_postgres(&database.url).await;
    let pool = Postgres::connect(&postgres::through(&proxy, &database.url)).await;
    let mut run = first(&pool, "k1").await;

    // It took effect.
    let Local::Todo(mut step) = run.local::<u32>("reserve").await.unwrap() else { panic!("to be done") };
    insert_effect::<Postgres>(step.tx(), "reserve").await;
    proxy.swallow_reply_to(postgres::once(postgres::is_commit()), Then::Cut);
    assert_eq!(step.done(7).await.unwrap(), 7);
    proxy.fired(1, LIMIT).await;
    assert_eq!(effects(&database).await, 1);

    // It did not arrive, and the step is still to be done.
    let Local::Todo(mut step) = run.local::<u32>("label").await.unwrap() else { panic!("to be done") };
    insert_effect::<Postgres>(step.tx(), "label").await;
    proxy.lose_request(postgres::once(postgres::is_commit()), Then::Cut);
    assert!(step.done(8).await.unwrap_err().is_retryable());
    proxy.fired(2, LIMIT).await;
    assert_eq!(effects(&database).await, 1);
    let Local::Todo(mut step) = run.local::<u32>("label").await.unwrap() else { panic!("to be done again") };
    insert_effect::<Postgres>(step.tx(), "label").await;
    step.done(8).await.unwrap();
    assert_eq!(effects(&database).await, 2);

    // The double takes a lost reply for a failure, and does it again.
    for _ in 0..2 {
        let mut tx = pool.begin().await.unwrap();
        insert_effect::<Postgres>(&mut tx, "double").await;
        if effects(&database).await == 2 {
            proxy.swallow_reply_to(postgres::once(postgres::is_commit()), Then::Cut);
            assert!(tx.commit().await.is_err());
        } else {
            tx.commit().await.unwrap();
        }
    }
    assert_eq!(effects(&database).await, 4, "the double's effect is there twice");
    run.complete("done".to_owned()).await.unwrap();
}

pub(crate) async fn write_whose_reply_was_lost_is_repeated_and_recognised(database: TestDatabase<Postgres>) {
    let (database, bank) = tables(database).await;
    let proxy = FaultProxy::to_postgres(&database.url).await;
    let pool = Postgres::connect(&postgres::through(&proxy, &database.url)).await;
    let (mut fired, ends) = (0, ["complete", "hold", "release"]);
    for end in ends {
        let mut run = first(&pool, end).await;
        if end == "complete" {
            lose_reply(&proxy, "SET step_data");
            let call = run.external::<String, _>("charge", Hold).await.unwrap();
            let External::Todo(attempt) = call else { panic!("a call: {call:?}") };
            proxy.fired(fired + 1, LIMIT).await;
            bank.charge(attempt.provider_key().as_str(), end, crate::bank::Manner::Answers).await;
            lose_reply(&proxy, "SET step_data");
            attempt.done("receipt".to_owned()).await.unwrap();
            proxy.fired(fired + 2, LIMIT).await;
            fired += 2;
        }
        lose_reply(
            &proxy,
            match end {
                "complete" => "SET state = 'completed'",
                "hold" => "SET state = 'held'",
                _ => "DELETE FROM leastlock_idempotency",
            },
        );
        match end {
            "complete" => assert_eq!(run.complete("done".to_owned()).await.unwrap(), "done"),
            "hold" => run.hold("no answer").await.unwrap(),
            _ => run.release().await.unwrap(),
        }
        fired += 1;
        proxy.fired(fired, LIMIT).await;
        let repeat = begin(&pool, end).await;
        let is_right = match end {
            "complete" => matches!(repeat, PhasedBegin::Replay(ref answer) if answer == "done"),
            "hold" => matches!(repeat, PhasedBegin::Unknown(_)),
            _ => matches!(repeat, PhasedBegin::First(_)),
        };
        assert!(is_right, "{end}: {repeat:?}");
    }
    assert_eq!(charges(&database).await, 1);
}

pub(crate) async fn claimant_that_waited_sees_the_step_that_was_committed_meanwhile(database: TestDatabase<Postgres>) {
    let (database, _bank) = tables(database).await;
    let pool = &database.pool;
    // The steps, as the owner is about to write them.
    let mut model = first(pool, "model").await;
    let Local::Todo(step) = model.local::<u32>("reserve").await.unwrap() else { panic!("to be done") };
    step.done(7).await.unwrap();
    let steps = "SELECT step_data FROM leastlock_idempotency WHERE idempotency_key = 'model'";
    let steps: Vec<u8> = sqlx::query_scalar(steps).fetch_one(pool).await.unwrap();

    let owner = first(pool, "k1").await;
    end_leases(&database).await;
    let mut tx = pool.begin().await.unwrap();
    let token = "SELECT owner_token FROM leastlock_idempotency WHERE idempotency_key = 'k1'";
    let token: Vec<u8> = sqlx::query_scalar(token).fetch_one(pool).await.unwrap();
    let write = Statement::new(Postgres::SAVE).bind(steps.as_slice()).bind("reserve").bind(60_000);
    let (scope, seq) = ("//pay", 0);
    let write = write.bind(scope).bind("k1").bind(owner.generation()).bind(token.as_slice()).bind(seq);
    assert_eq!(write.execute::<Postgres>(&mut tx).await.unwrap(), 1, "written, not committed");
    let over = "UPDATE leastlock_idempotency SET lease_until = created_at WHERE idempotency_key = 'k1'";
    sqlx::query(over).execute(&mut *tx).await.unwrap();

    let claimant = tokio::spawn({
        let pool = pool.clone();
        async move { begin(&pool, "k1").await }
    });
    until("the claimant waits for the row", LIMIT, async || database.waiting_for_locks().await > 0).await;
    tx.commit().await.unwrap();
    let PhasedBegin::First(mut run) = claimant.await.unwrap() else { panic!("it takes over") };
    assert_eq!(run.resumed_at(), Some(&RecoveryPoint::After { step: "reserve".to_owned() }));
    let reserve = run.local::<u32>("reserve").await.unwrap();
    assert!(matches!(reserve, Local::Done(7)), "what it read before it waited is not what it goes by: {reserve:?}");
}

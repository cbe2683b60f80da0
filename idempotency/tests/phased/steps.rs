//! Steps: what is done stays done, what comes late changes nothing, what was done is undone in reverse.

use std::time::Duration;

use leastlock_core::Statement;
use leastlock_idempotency::Error;
use leastlock_idempotency::phased::{
    External, Hold, Local, Phased, PhasedBegin, PhasedSql, RecoveryPoint, RetryWithSameKey, Run, StepError,
};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::bank::{Heard, Manner, charges};
use crate::payer::{Call, Product, effects, end_leases, fingerprint, insert_effect, key, tables};

/// How long something may take that has to come.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn phased() -> Phased {
    Product::retrying().phased
}

pub(crate) async fn first<DB: TestEngine + PhasedSql>(
    phased: &Phased,
    database: &TestDatabase<DB>,
    name: &str,
) -> Run<DB, String> {
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

/// On SQLite, where a trigger can stand in for the other process in just that moment.
#[cfg(feature = "sqlite")]
pub(crate) async fn claim_that_lost_a_take_over_to_a_release_is_a_fresh_one(database: TestDatabase<sqlx::Sqlite>) {
    let (database, _bank) = tables(database).await;
    let owner = first(&phased(), &database, "k1").await;
    end_leases(&database).await;
    database
        .execute(
            "CREATE TRIGGER released BEFORE UPDATE OF generation ON leastlock_idempotency BEGIN \
             DELETE FROM leastlock_idempotency WHERE idempotency_key = OLD.idempotency_key; SELECT RAISE(IGNORE); END",
        )
        .await;
    let run = first(&phased(), &database, "k1").await;
    assert_eq!((run.generation(), run.resumed_at()), (1, None), "nobody was here before it");
    drop(owner);

    // The double that says so of whoever has tried to take over cannot tell these two apart.
    database.execute("DROP TRIGGER released").await;
    end_leases(&database).await;
    let run = first(&phased(), &database, "k1").await;
    assert_eq!((run.generation(), run.resumed_at()), (2, Some(&RecoveryPoint::Start)));
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
        if crashes {
            // The double undoes first what was done first.
            let forward = note(&mut run, "unreserve", None).await;
            let Err(Error::Step { source: StepError::RunsBack { expected, .. } }) = forward else {
                panic!("{forward:?}")
            };
            assert_eq!(expected.as_deref(), Some("void-label"));
        }
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

pub(crate) async fn write_that_arrives_after_a_later_one_is_refused<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    /// A write of the steps, as it was sent before `step_seq` was raised.
    async fn late<DB: TestEngine + PhasedSql>(
        connection: &mut DB::Connection,
        (steps, owner): (&[u8], &[u8]),
        step_seq: i64,
    ) -> u64 {
        let key = key(&Call::new("k1", "lamp"));
        let write = Statement::new(DB::SAVE).bind(steps).bind(None::<&str>).bind(60_000);
        let write = write.bind(key.scope().as_str()).bind(key.as_str()).bind(1).bind(owner).bind(step_seq);
        write.execute::<DB>(connection).await.unwrap()
    }
    let (database, _bank) = tables(database).await;
    let mut connection = database.pool.acquire().await.unwrap();
    let mut run = first(&phased(), &database, "k1").await;
    let External::Todo(attempt) = run.external::<u32, _>("charge", Hold).await.unwrap() else { panic!("a call") };
    attempt.not_sent().await.unwrap();
    let read = "SELECT step_data, owner_token, step_seq FROM leastlock_idempotency";
    let row = Statement::new(read).fetch_one::<DB>(&mut connection).await.unwrap();
    let (not_sent, owner, step_seq) = (row.bytes(0).unwrap(), row.bytes(1).unwrap(), row.int(2).unwrap());

    assert!(matches!(run.external::<u32, _>("charge", Hold).await.unwrap(), External::Todo(_)));
    assert_eq!(late::<DB>(&mut connection, (&not_sent, &owner), step_seq - 1).await, 0, "that it was not sent is old");
    drop(run);
    end_leases(&database).await;
    let mut run = first(&phased(), &database, "k1").await;
    assert!(
        matches!(run.external::<u32, _>("charge", Hold).await.unwrap(), External::Held(_)),
        "the call may be under way"
    );

    // The double: the same write without regard to the sequence turns the record back, and the call is made again.
    database.execute("DELETE FROM leastlock_idempotency").await;
    let mut run = first(&phased(), &database, "k1").await;
    assert!(matches!(run.external::<u32, _>("charge", Hold).await.unwrap(), External::Todo(_)));
    let row = Statement::new(read).fetch_one::<DB>(&mut connection).await.unwrap();
    let (owner, step_seq) = (row.bytes(1).unwrap(), row.int(2).unwrap());
    assert_eq!(late::<DB>(&mut connection, (&not_sent, &owner), step_seq).await, 1);
    drop(run);
    end_leases(&database).await;
    let mut run = first(&phased(), &database, "k1").await;
    assert!(matches!(run.external::<u32, _>("charge", Hold).await.unwrap(), External::Todo(_)));
}

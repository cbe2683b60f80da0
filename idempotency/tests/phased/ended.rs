//! A transaction that the server has ended, in which the program goes on: SQLite and MariaDB then commit each statement by itself.
#![cfg(any(feature = "sqlite", feature = "mysql"))]

use leastlock_core::Statement;
use leastlock_idempotency::Error;
use leastlock_idempotency::phased::{Local, PhasedSql};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;

use crate::payer::{Call, effects, insert_effect, key, tables};
use crate::steps::{first, note, phased};

pub(crate) trait Ends: TestEngine + PhasedSql {
    /// Has the server end `tx` by an error that the program swallows.
    async fn end(database: &TestDatabase<Self>, tx: &mut Transaction<'static, Self>);
}

#[cfg(feature = "sqlite")]
impl Ends for sqlx::Sqlite {
    async fn end(_: &TestDatabase<Self>, tx: &mut Transaction<'static, Self>) {
        let twice = "INSERT OR ROLLBACK INTO charge (id, item) VALUES ('a', 'lamp'), ('a', 'lamp')";
        assert!(sqlx::query(twice).execute(&mut **tx).await.is_err(), "the conflict rolls all back");
    }
}

#[cfg(feature = "mysql")]
impl Ends for sqlx::MySql {
    /// A deadlock, which the server resolves against the one that has written less.
    async fn end(database: &TestDatabase<Self>, tx: &mut Transaction<'static, Self>) {
        database.execute("REPLACE INTO charge (id, item) VALUES ('mine', 'lamp'), ('theirs', 'lamp')").await;
        let mut other = database.pool.begin().await.unwrap();
        let many =
            "INSERT INTO effect (item) VALUES ('o'), ('o'), ('o'), ('o'), ('o'), ('o'), ('o'), ('o'), ('o'), ('o')";
        sqlx::query(many).execute(&mut *other).await.unwrap();
        sqlx::query("UPDATE charge SET item = 'x' WHERE id = 'theirs'").execute(&mut *other).await.unwrap();
        sqlx::query("UPDATE charge SET item = 'y' WHERE id = 'mine'").execute(&mut **tx).await.unwrap();
        let theirs = tokio::spawn(async move {
            let update = sqlx::query("UPDATE charge SET item = 'x' WHERE id = 'mine'").execute(&mut *other).await;
            other.rollback().await.unwrap();
            update.unwrap();
        });
        let mine = sqlx::query("UPDATE charge SET item = 'y' WHERE id = 'theirs'").execute(&mut **tx).await;
        assert!(mine.is_err(), "it loses the deadlock, whoever waits first");
        theirs.await.unwrap();
    }
}

/// The steps of a key that has done `reserve`.
async fn steps_of_a_model<DB: Ends>(database: &TestDatabase<DB>) -> Vec<u8> {
    note(&mut first(&phased(), database, "model").await, "reserve", None).await.unwrap();
    database.execute("DELETE FROM effect").await;
    let select = "SELECT step_data FROM leastlock_idempotency WHERE idempotency_key = 'model'";
    let mut connection = database.pool.acquire().await.unwrap();
    Statement::new(select).fetch_one::<DB>(&mut connection).await.unwrap().bytes(0).unwrap()
}

pub(crate) async fn step_whose_transaction_has_ended_is_not_recorded_as_done<DB: Ends>(database: TestDatabase<DB>) {
    let (database, _bank) = tables(database).await;
    let steps = steps_of_a_model(&database).await;
    let recorded =
        "SELECT count(*) FROM leastlock_idempotency WHERE recovery_point = 'reserve' AND idempotency_key <> 'model'";

    let mut run = first(&phased(), &database, "k1").await;
    let Local::Todo(mut step) = run.local::<()>("reserve").await.unwrap() else { panic!("to be done") };
    insert_effect::<DB>(step.tx(), "before").await;
    DB::end(&database, step.tx()).await;
    let done = step.done(()).await;
    assert!(matches!(done, Err(Error::TransactionEnded { .. })), "{done:?}");
    assert_eq!((database.int(recorded).await, effects(&database).await), (0, 0));
    // The connection is of use to the next, and so is the run.
    for _ in 0..30 {
        drop(database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap());
    }
    note(&mut run, "reserve", None).await.unwrap();
    assert_eq!((database.int(recorded).await, effects(&database).await), (1, 1));

    // The same for one that is dropped.
    let Local::Todo(mut step) = run.local::<()>("ship").await.unwrap() else { panic!("to be done") };
    DB::end(&database, step.tx()).await;
    drop(step);
    for _ in 0..30 {
        drop(database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap());
    }

    // The double records without a look at its transaction: done, and its effect is nowhere.
    database.execute("DELETE FROM effect").await;
    let mut run = first(&phased(), &database, "k2").await;
    let select = "SELECT owner_token FROM leastlock_idempotency WHERE idempotency_key = 'k2'";
    let row = Statement::new(select).fetch_one::<DB>(&mut database.pool.acquire().await.unwrap()).await.unwrap();
    let (key, token) = (key(&Call::new("k2", "lamp")), row.bytes(0).unwrap());
    let Local::Todo(mut step) = run.local::<()>("reserve").await.unwrap() else { panic!("to be done") };
    insert_effect::<DB>(step.tx(), "before").await;
    DB::end(&database, step.tx()).await;
    let save = Statement::new(DB::SAVE).bind(steps.as_slice()).bind("reserve").bind(60_000);
    let save = save.bind(key.scope().as_str()).bind(key.as_str()).bind(1).bind(token.as_slice()).bind(0);
    assert_eq!(save.execute::<DB>(step.tx()).await.unwrap(), 1);
    assert_eq!((database.int(recorded).await, effects(&database).await), (2, 0), "the double's step is lost");
}

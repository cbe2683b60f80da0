//! What a handler does to its transaction without saying so counts as its attempt, and ends (SQLite aborts no transaction by a
//! statement and ends none for its time).

use std::error::Error as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leastlock_core::{Engine, Statement};
use leastlock_partition_worker::{Error, Failure, Handler, Record, Timeouts, WorkerSql};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::sql;
use sqlx::Transaction;

use crate::rig::{Bus, Rig, apply, start};

/// Inserts an effect, then does what it should not.
enum Handles {
    /// Ignores that a statement has failed and ended the transaction, so many times.
    Ignoring(AtomicUsize),
    /// Waits for something else.
    Sitting(Duration),
    /// Asks what the server has too little time for.
    Slowly,
}

impl<DB: WorkerSql> Handler<DB> for Handles {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        apply::<DB>(tx, record, "handles").await?;
        let run = async |tx: &mut DB::Connection, sql| Statement::new(sql).execute::<DB>(tx).await;
        match self {
            Self::Ignoring(times) => {
                let more = times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                if more.is_ok() {
                    let failed = run(tx, "INSERT INTO taken (id) VALUES (1)").await;
                    assert!(failed.is_err(), "it is taken");
                    if DB::ENGINE == Engine::MySql {
                        // That alone ends nothing there; what does is what a deadlock does as well.
                        run(tx, "ROLLBACK").await?;
                    }
                }
            }
            Self::Sitting(time) => tokio::time::sleep(*time).await,
            Self::Slowly => {
                run(tx, sql::<DB>("SET LOCAL statement_timeout = '20ms'", "SET @slow = 1")).await?;
                let slow = "SET STATEMENT max_statement_time = 0.02 FOR SELECT SLEEP(60)";
                run(tx, sql::<DB>("SELECT pg_sleep(60)", slow)).await?;
            }
        }
        Ok(())
    }
}

/// Runs a worker over one record until its handler has failed twice; answers what the worker ended with.
async fn failed_twice<DB: Bus>(rig: &Rig<DB>, timeouts: Timeouts, handler: Handles) -> Error {
    rig.produce(&["85123A"], 1..=1).await;
    let worker = start(rig.builder_with(timeouts).max_attempts(2), handler);
    let error = worker.ended().await.expect_err("the handler fails each time");
    assert!(matches!(error, Error::HandlerFailed { offset: 0, attempts: 2, .. }), "{error:?}");
    assert_eq!(rig.database.int("SELECT count(*) FROM effect").await, 0);
    error
}

pub(crate) async fn an_ignored_error_costs_an_attempt_and_no_record<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    rig.database.execute("CREATE TABLE taken (id BIGINT PRIMARY KEY)").await;
    rig.database.execute("INSERT INTO taken (id) VALUES (1)").await;
    let error = failed_twice(&rig, Timeouts::default(), Handles::Ignoring(AtomicUsize::new(usize::MAX))).await;
    let said = error.source().expect("a cause").to_string();
    assert!(said.contains("ignored an error"), "{said}");

    let worker = start(rig.builder(), Handles::Ignoring(AtomicUsize::new(1)));
    rig.effects(1).await;
    let summary = worker.stop().await;
    let failures = summary.partitions.values().map(|partition| partition.failures).sum::<u64>();
    assert_eq!((summary.processed(), failures), (1, 1), "{summary:?}");
    rig.assert_exactly_once(&["85123A"], 1).await;
}

pub(crate) async fn sitting_beyond_the_idle_timeout_counts_as_an_attempt<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    let timeouts = Timeouts { idle: Duration::from_millis(100), ..Timeouts::default() };
    // MariaDB counts whole seconds.
    let sits = Duration::from_millis(if DB::ENGINE == Engine::MySql { 2_500 } else { 500 });
    failed_twice(&rig, timeouts, Handles::Sitting(sits)).await;
}

pub(crate) async fn a_statement_that_always_times_out_counts_as_an_attempt<DB: Bus>(database: TestDatabase<DB>) {
    failed_twice(&Rig::new(database, 1).await, Timeouts::default(), Handles::Slowly).await;
}

//! L18 over a crash: a run that is killed, or stopped, and what the next one does.

use std::time::Duration;

use leastlock_lease::{Hold, LeaseSql, Leases, Once, SqlLeaseStore, Turn};
use leastlock_testkit::process::{Child, child_role, hear, speak};
use leastlock_testkit::{TestDatabase, TestEngine};

use super::doubles::{Way, run};
use super::suite::{Answer, EXPIRE, WORK, day};
use crate::rig::protected;
use crate::world::{LIMIT, VALUE, write};

const URL: &str = "LEASTLOCK_TEST_URL";
const HOW: &str = "LEASTLOCK_TEST_HOW";
const RUNNER: &str = "once::crash::runner";
/// Is killed or stopped inside its transaction.
const INSIDE: &str = "Inside";

/// The child: runs the period, and is killed or stopped half-way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runner() {
    if !child_role(RUNNER) {
        return;
    }
    let url = std::env::var(URL).unwrap();
    match url.split_once(':').unwrap().0 {
        #[cfg(feature = "postgres")]
        "postgres" => run_as_child::<sqlx::Postgres>(&url).await,
        #[cfg(feature = "sqlite")]
        "sqlite" => run_as_child::<sqlx::Sqlite>(&url).await,
        #[cfg(feature = "mysql")]
        "mysql" => run_as_child::<sqlx::MySql>(&url).await,
        other => panic!("{other}"),
    }
}

async fn run_as_child<DB: TestEngine + LeaseSql>(url: &str) {
    let pool = DB::connect(url).await;
    let how = std::env::var(HOW).unwrap();
    let answer = if how == INSIDE {
        let leases = Leases::new(SqlLeaseStore::new(&pool));
        let work = async |turn: Turn<DB>| {
            let mut tx = turn.begin().await?;
            write(&mut tx, WORK).await?;
            half_way();
            Ok(tx.complete(()).await?)
        };
        // Stopped, it is ended after so long.
        leases.once(&pool, &day(), Hold::fixed(Duration::from_secs(2)), work).await
    } else {
        let way = Way::ALL.into_iter().find(|way| format!("{way:?}") == how).unwrap();
        run(&pool, &day(), way, half_way).await
    };
    speak(format_args!("answer: {answer:?}"));
}

/// Here the child is killed or stopped.
fn half_way() {
    speak("half-way");
    let _ = hear();
}

async fn start<DB: TestEngine + LeaseSql>(how: &str) -> (TestDatabase<DB>, Child) {
    let database = protected::<DB>().await;
    let mut child = Child::rerun(RUNNER, &[(URL, &database.url), (HOW, how)]);
    child.line_containing("half-way", LIMIT);
    (database, child)
}

async fn again<DB: TestEngine + LeaseSql>(database: &TestDatabase<DB>, way: Way) -> Answer {
    database.execute(EXPIRE).await;
    run(&database.pool, &day(), way, || ()).await
}

/// Killed after it has committed, and started again; answers how often the work was done.
async fn killed_half_way<DB: TestEngine + LeaseSql>(way: Way) -> i64 {
    let (database, mut child) = start::<DB>(&format!("{way:?}")).await;
    child.kill();
    let answer = again(&database, way).await.unwrap();
    if way == Way::Right {
        assert!(matches!(answer, Once::Done(_)), "{answer:?}");
    }
    database.int(VALUE).await
}

async fn crash_after_completion<DB: TestEngine + LeaseSql>() {
    assert_eq!(killed_half_way::<DB>(Way::Right).await, 1);
    assert_eq!(killed_half_way::<DB>(Way::LeaseAlone).await, 2, "the double runs it twice");
    assert_eq!(killed_half_way::<DB>(Way::MarkAfter).await, 2, "and so does this one");
    assert_eq!(killed_half_way::<DB>(Way::MarkBefore).await, 0, "and this one never");
}

async fn crash_before_completion<DB: TestEngine + LeaseSql>() {
    let (database, mut child) = start::<DB>(INSIDE).await;
    child.kill();
    assert_eq!(again(&database, Way::Right).await.unwrap(), Once::Ran(()));
    assert_eq!(database.int(VALUE).await, 1);
}

/// The server ends what a stopped process has begun; the next run waits for that, and the stopped one commits nothing.
#[cfg(any(feature = "postgres", feature = "mysql"))]
async fn stopped_inside<DB: TestEngine + LeaseSql>() {
    let (database, mut child) = start::<DB>(INSIDE).await;
    child.stop();
    assert_eq!(again(&database, Way::Right).await.unwrap(), Once::Ran(()));
    child.resume();
    child.send_line("go on");
    let answer = child.line_containing("answer: Err", LIMIT);
    assert!(!answer.contains("Ran"), "{answer}");
    assert_eq!(database.int(VALUE).await, 1);
    let third = again(&database, Way::Right).await;
    assert!(matches!(third, Ok(Once::Done(_))), "{third:?}");
}

macro_rules! mount {
    ($engine:ident, $name:literal, $db:ty $(, $more:ident)?) => {
        #[cfg(feature = $name)]
        mod $engine {
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn l18_period_whose_run_was_killed_after_completion_is_not_run_again() {
                super::crash_after_completion::<$db>().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn l18_period_whose_run_was_killed_before_completion_is_run_again() {
                super::crash_before_completion::<$db>().await;
            }

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn l18_run_that_was_stopped_inside_its_transaction_is_passed_by() {
                    super::$more::<$db>().await;
                }
            )?
        }
    };
}

mount!(sqlite, "sqlite", sqlx::Sqlite);
mount!(postgres, "postgres", sqlx::Postgres, stopped_inside);
mount!(mysql, "mysql", sqlx::MySql, stopped_inside);

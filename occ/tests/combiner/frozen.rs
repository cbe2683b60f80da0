//! A process that is stopped (SIGSTOP) inside of a batch's transaction. On SQLite it would block the file until it goes on.

use std::convert::Infallible;
use std::time::Duration;

use leastlock_core::{Backoff, Engine, ErrorClass, Statement, classify};
use leastlock_occ::combiner::{Apply, Batch, BatchError, CombineError, Combiner, CombinerSql};
use leastlock_testkit::process::{Child, child_role, hear, speak};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{Pool, Transaction};
use tokio::time::timeout;

use super::append::LIMIT;

/// The child's test function.
const HOLDER: &str = "frozen::holder";
/// The bound that the child's combiner has; the server's own is none.
const IDLE: Duration = Duration::from_secs(1);

const ADD: [&str; 2] =
    ["UPDATE held SET units = units + 1 WHERE id = 1", "UPDATE held SET units = units + 1 WHERE id = 2"];
const TRY_THE_DOUBLES: &str = "SELECT units FROM held WHERE id = 2 FOR UPDATE NOWAIT";

pub(crate) async fn a_process_stopped_inside_its_batch_lets_others_have_its_rows<DB: TestEngine + CombinerSql>(
    database: TestDatabase<DB>,
) {
    database.execute("CREATE TABLE held (id BIGINT NOT NULL PRIMARY KEY, units BIGINT NOT NULL)").await;
    database.execute("INSERT INTO held VALUES (1, 0), (2, 0)").await;
    let engine = format!("{:?}", DB::ENGINE);
    let [mut double, mut combiner] = ["plain", "combiner"].map(|kind| {
        let mut child = Child::rerun(HOLDER, &[("URL", &database.url), ("ENGINE", &engine), ("KIND", kind)]);
        child.line_containing("holding", LIMIT);
        child.stop();
        child
    });
    // Waits for the row as long as it takes; the server's own limit is longer than this.
    timeout(LIMIT, database.execute(ADD[0])).await.expect("the stopped combiner's row becomes free");

    // The double was stopped first, and still has its row.
    let mut somebody = database.pool.acquire().await.expect("a connection");
    let tried = Statement::new(TRY_THE_DOUBLES).fetch_all::<DB>(&mut somebody).await;
    let class = tried.as_ref().err().map(classify::<DB>);
    assert_eq!(class, Some(ErrorClass::LockTimeout), "the double is not caught");

    for child in [&mut combiner, &mut double] {
        child.resume();
        child.send_line("go on");
    }
    combiner.line_containing("told: not applied", LIMIT);
    double.line_containing("told: applied", LIMIT);
    assert_eq!(database.int("SELECT units FROM held WHERE id = 1").await, 1, "the late commit was not let through");
}

/// Changes a row, and waits until it is told to go on: the thread does, so no limit of the child's own can come first.
struct Holds;

impl<DB: CombinerSql> Apply<DB> for Holds {
    type Operation = ();
    type Answer = ();

    async fn apply(&self, tx: &mut Transaction<'_, DB>, batch: &mut Batch<(), ()>) -> Result<(), BatchError> {
        Statement::new(ADD[0]).execute::<DB>(tx).await?;
        holding();
        batch.answer(0, ());
        Ok(())
    }

    async fn apply_at_once(&self, _: &mut DB::Connection, _: &[()]) -> Result<Option<Vec<()>>, BatchError> {
        Ok(None)
    }

    fn absorbs_repeats(&self, (): &()) -> bool {
        false
    }
}

fn holding() {
    speak("holding");
    assert!(hear().is_some(), "the parent says when to go on");
}

/// The child.
#[tokio::test]
async fn holder() {
    if !child_role(HOLDER) {
        return;
    }
    let engine = std::env::var("ENGINE").expect("the parent says");
    #[cfg(feature = "postgres")]
    if engine == format!("{:?}", Engine::Postgres) {
        hold::<sqlx::Postgres>().await;
    }
    #[cfg(feature = "mysql")]
    if engine == format!("{:?}", Engine::MySql) {
        hold::<sqlx::MySql>().await;
    }
}

async fn hold<DB: TestEngine + CombinerSql>() {
    let pool = DB::connect(&std::env::var("URL").expect("the parent says")).await;
    let told = if std::env::var("KIND").is_ok_and(|kind| kind == "combiner") {
        by_a_combiner(&pool).await.is_ok()
    } else {
        by_hand(&pool).await.is_ok()
    };
    speak(if told { "told: applied" } else { "told: not applied" });
}

async fn by_a_combiner<DB: TestEngine + CombinerSql>(pool: &Pool<DB>) -> Result<(), CombineError> {
    let once = Backoff::new(Duration::from_millis(1), Duration::from_millis(1));
    let combiner = Combiner::builder(pool, Holds).attempt_time(IDLE).attempts(1, once);
    let answer = combiner.build().expect("the limits are right").submit(()).await;
    assert!(!answer.as_ref().is_err_and(CombineError::is_unknown), "the commit was never sent: {answer:?}");
    answer
}

/// The double: a transaction that nobody bounds.
async fn by_hand<DB: TestEngine>(pool: &Pool<DB>) -> Result<Option<Infallible>, sqlx::Error> {
    let mut tx = pool.begin().await?;
    Statement::new(ADD[1]).execute::<DB>(&mut tx).await?;
    holding();
    tx.commit().await?;
    Ok(None)
}

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leastlock_core::Engine;
use leastlock_lease::{
    Acquire, Completed, Error, LeaseSql, Leases, Marked, Once, Period, SqlLeaseStore, Turn, WorkError,
};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::doubles::{Way, run, run_after};
use crate::world::{LIMIT, LONG, VALUE, eventually, fixed, write};

/// Counts how often it is committed.
pub(crate) const WORK: &str = "UPDATE protected SET value = value + 1";
/// The TTL of every lease in the table runs out.
pub(crate) const EXPIRE: &str = "UPDATE leastlock_lease SET lease_until = acquired_at";
const STARTS: usize = 8;

pub(crate) type Answer = Result<Once<()>, Error>;

pub(crate) fn day() -> Period {
    Period::new("daily-settlement", "2026-09-16").unwrap()
}

/// As another process has them.
fn leases<DB: LeaseSql>(pool: &Pool<DB>) -> Leases<SqlLeaseStore<DB>> {
    Leases::new(SqlLeaseStore::new(pool))
}

async fn settle<DB: TestEngine + LeaseSql>(turn: Turn<DB>) -> Result<Completed<()>, WorkError> {
    finish(turn.begin().await?).await
}

async fn finish<DB: TestEngine + LeaseSql>(mut tx: Marked<DB>) -> Result<Completed<()>, WorkError> {
    write(&mut tx, WORK).await?;
    Ok(tx.complete(()).await?)
}

async fn once<DB: TestEngine + LeaseSql>(pool: &Pool<DB>) -> Answer {
    once_by(pool, settle).await
}

async fn once_by<DB, F, Fut>(pool: &Pool<DB>, work: F) -> Answer
where
    DB: LeaseSql,
    F: FnOnce(Turn<DB>) -> Fut,
    Fut: Future<Output = Result<Completed<()>, WorkError>>,
{
    leases(pool).once(pool, &day(), fixed(), work).await
}

pub(crate) async fn l18_period_started_twice_runs_once<DB: TestEngine + LeaseSql>(database: TestDatabase<DB>) {
    for (way, runs) in [(Way::Right, 1), (Way::LeaseAlone, STARTS)] {
        database.execute("UPDATE protected SET value = 0").await;
        database.execute("DELETE FROM leastlock_once").await;
        let ran = Arc::new(AtomicUsize::new(0));
        let starts = (0..STARTS).map(|_| {
            let (pool, ran) = (database.pool.clone(), Arc::clone(&ran));
            tokio::spawn(async move {
                let answer = run(&pool, &day(), way, || ()).await.unwrap();
                ran.fetch_add(usize::from(matches!(answer, Once::Ran(()))), Ordering::SeqCst);
            })
        });
        for start in starts.collect::<Vec<_>>() {
            start.await.unwrap();
        }
        let expected = i64::try_from(runs).unwrap();
        assert_eq!((ran.load(Ordering::SeqCst), database.int(VALUE).await), (runs, expected), "{way:?}");
    }
    // And not the day after either.
    database.execute("DELETE FROM leastlock_once").await;
    assert_eq!(once(&database.pool).await.unwrap(), Once::Ran(()));
    let Once::Done(done) = once(&database.pool).await.unwrap() else { panic!("it is done") };
    assert!(done.age < LONG && done.took < LONG, "{done}");
}

/// A run that has its turn and has not begun; it goes on when it is told to.
fn with_turn<DB: TestEngine + LeaseSql>(
    pool: &Pool<DB>,
) -> (oneshot::Receiver<()>, oneshot::Sender<()>, JoinHandle<Answer>) {
    let (pool, (has, had), (go_on, goes_on)) = (pool.clone(), oneshot::channel(), oneshot::channel());
    let run = tokio::spawn(async move {
        let work = async |turn| {
            has.send(()).unwrap();
            goes_on.await.unwrap();
            settle(turn).await
        };
        leases(&pool).once(&pool, &day(), fixed(), work).await
    });
    (had, go_on, run)
}

pub(crate) async fn l18_late_run_of_a_period_that_is_done_commits_nothing<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    // The doubles have looked for the mark too, and write their own when they are done, or none.
    for (way, committed) in [(Way::Right, 1), (Way::MarkAfter, 2), (Way::LeaseAlone, 2)] {
        database.execute("DELETE FROM leastlock_once").await;
        database.execute("UPDATE protected SET value = 0").await;
        let (pool, (has, had), (go_on, goes_on)) = (database.pool.clone(), oneshot::channel(), oneshot::channel());
        let late = tokio::spawn(async move {
            let stopped = async {
                has.send(()).unwrap();
                goes_on.await.unwrap();
            };
            run_after(&pool, &day(), way, stopped, || ()).await
        });
        had.await.unwrap();
        database.execute(EXPIRE).await;
        assert_eq!(once(&database.pool).await.unwrap(), Once::Ran(()));
        go_on.send(()).unwrap();
        let late = late.await.unwrap();
        assert_eq!(matches!(late, Ok(Once::Done(_))), way == Way::Right, "{way:?}: {late:?}");
        assert_eq!(database.int(VALUE).await, committed, "{way:?}");
        database.execute(EXPIRE).await;
    }
}

pub(crate) async fn l18_of_two_runs_inside_their_transactions_one_commits<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    let mut both = Vec::new();
    for _ in 0..2 {
        let (has_turn, go_on, run) = with_turn(&database.pool);
        has_turn.await.unwrap();
        database.execute(EXPIRE).await;
        both.push((go_on, run));
    }
    let both = both.into_iter().map(|(go_on, run)| {
        go_on.send(()).unwrap();
        run
    });
    let mut ran = 0;
    for run in both.collect::<Vec<_>>() {
        let answer = run.await.unwrap().unwrap();
        ran += i64::from(answer == Once::Ran(()));
    }
    assert_eq!((ran, database.int(VALUE).await), (1, 1));
}

pub(crate) async fn l18_run_whose_commit_was_not_answered_is_not_repeated<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    let unanswered = once_by(&database.pool, async |turn| {
        let _committed = settle(turn).await?;
        Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into()).into())
    });
    let unanswered = unanswered.await;
    assert!(matches!(unanswered, Err(Error::Work { .. })), "{unanswered:?}");
    assert_eq!(database.int("SELECT COUNT(*) FROM leastlock_lease WHERE lease_until IS NULL").await, 0);
    // Before the lease is over already.
    let again = once(&database.pool).await;
    assert!(matches!(again, Ok(Once::Done(_))), "{again:?}");
    assert_eq!(database.int(VALUE).await, 1);
}

pub(crate) async fn failed_work_leaves_the_period_to_be_run_again<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    let failed = once_by(&database.pool, async |turn| {
        assert_eq!(turn.key(), "job:daily-settlement:2026-09-16");
        let mut tx = turn.begin().await?;
        write(&mut tx, WORK).await?;
        Err("the bank is closed".into())
    });
    let failed = failed.await;
    assert!(matches!(failed, Err(Error::Work { .. })), "{failed:?}");
    assert_eq!((database.int(VALUE).await, day().done(&database.pool).await.unwrap()), (0, None));
    assert_eq!(once(&database.pool).await.unwrap(), Once::Ran(()), "and its lease was released");
    assert_eq!(database.int(VALUE).await, 1);
}

pub(crate) async fn dropped_run_leaves_the_period_to_be_run_again<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    let (wrote, written) = oneshot::channel();
    let pool = database.pool.clone();
    let dropped = tokio::spawn(async move {
        let work = async |turn: Turn<DB>| {
            let mut tx = turn.begin().await?;
            write(&mut tx, WORK).await?;
            wrote.send(()).unwrap();
            std::future::pending::<()>().await;
            Ok(tx.complete(()).await?)
        };
        leases(&pool).once(&pool, &day(), fixed(), work).await
    });
    written.await.unwrap();
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    database.execute(EXPIRE).await;
    assert_eq!(once(&database.pool).await.unwrap(), Once::Ran(()));
    assert_eq!(database.int(VALUE).await, 1);
}

pub(crate) async fn work_that_took_its_mark_away_does_not_commit<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    let undone = once_by(&database.pool, async |turn| {
        let mut tx = turn.begin().await?;
        write(&mut tx, "DELETE FROM leastlock_once").await?;
        finish(tx).await
    });
    let undone = undone.await;
    assert!(matches!(undone, Err(Error::Database { .. })), "{undone:?}");
    assert_eq!(database.int(VALUE).await, 0);
}

pub(crate) async fn what_another_period_has_completed_proves_nothing_of_this_one<DB: TestEngine + LeaseSql>(
    database: TestDatabase<DB>,
) {
    let (leases, yesterday) = (leases(&database.pool), Period::new("daily-settlement", "2026-09-15").unwrap());
    let mut of_yesterday = None;
    let kept = leases.once(&database.pool, &yesterday, fixed(), async |turn| {
        of_yesterday = Some(settle(turn).await?);
        Err::<Completed<()>, _>("it keeps what it has completed".into())
    });
    assert!(matches!(kept.await, Err(Error::Work { .. })));
    let answer = once_by(&database.pool, async |_turn| Ok(of_yesterday.unwrap())).await;
    assert!(matches!(answer, Err(Error::OtherTurn { .. })), "{answer:?}");
    assert_eq!(day().done(&database.pool).await.unwrap(), None);
    // It is not known what that work has done, so its lease was left to expire.
    database.execute(EXPIRE).await;
    assert_eq!(once(&database.pool).await.unwrap(), Once::Ran(()), "it was not done");
    assert_eq!(database.int(VALUE).await, 2);
}

pub(crate) async fn a_period_that_is_being_run_is_said_to_be<DB: TestEngine + LeaseSql>(database: TestDatabase<DB>) {
    let (has_turn, go_on, run) = with_turn(&database.pool);
    has_turn.await.unwrap();
    let hasty = leases(&database.pool);
    let second = hasty.once_with(&database.pool, &day(), fixed(), Acquire::fail_fast(), settle).await.unwrap();
    assert!(matches!(&second, Once::Running(holder) if holder.remaining <= LONG), "{second:?}");
    // One that waits gets the answer when there is one.
    let pool = database.pool.clone();
    let patient =
        tokio::spawn(
            async move { leases(&pool).once_with(&pool, &day(), fixed(), Acquire::waiting(LIMIT), settle).await },
        );
    go_on.send(()).unwrap();
    assert_eq!(run.await.unwrap().unwrap(), Once::Ran(()));
    assert!(matches!(patient.await.unwrap().unwrap(), Once::Done(_)));
    assert_eq!(database.int(VALUE).await, 1);
}

pub(crate) async fn other_periods_and_other_jobs_are_run<DB: TestEngine + LeaseSql>(database: TestDatabase<DB>) {
    let leases = leases(&database.pool);
    // None is taken for another, whatever their letters.
    for (job, period) in [("a", "b"), ("A", "b"), ("a", "B"), ("a:b", "c"), ("a:b", "c.")] {
        let period = Period::new(job, period).unwrap();
        let first = leases.once(&database.pool, &period, fixed(), settle).await.unwrap();
        let second = leases.once(&database.pool, &period, fixed(), settle).await.unwrap();
        assert!(matches!((first, second), (Once::Ran(()), Once::Done(_))), "{period}");
    }
    assert_eq!(database.int(VALUE).await, 5);
}

pub(crate) async fn a_forgotten_period_can_be_run_again<DB: TestEngine + LeaseSql>(database: TestDatabase<DB>) {
    let leases = leases(&database.pool);
    for period in ["1", "2", "3"] {
        let period = Period::new("j", period).unwrap();
        assert_eq!(leases.once(&database.pool, &period, fixed(), settle).await.unwrap(), Once::Ran(()));
    }
    assert_eq!(Period::forget(&database.pool, LONG, 10).await.unwrap(), 0, "none is so old");
    let old = match DB::ENGINE {
        Engine::Postgres => "UPDATE leastlock_once SET completed_at = now() - interval '1 hour' WHERE period < '3'",
        Engine::MySql => {
            "UPDATE leastlock_once SET completed_at = UTC_TIMESTAMP(6) - INTERVAL 1 HOUR WHERE period < '3'"
        }
        _ => "UPDATE leastlock_once SET completed_at = completed_at - 3600000 WHERE period < '3'",
    };
    database.execute(old).await;
    let hour = Duration::from_mins(59);
    assert_eq!(Period::forget(&database.pool, hour, 1).await.unwrap(), 1);
    assert_eq!(Period::forget(&database.pool, hour, 10).await.unwrap(), 1);
    assert_eq!(Period::forget(&database.pool, hour, 10).await.unwrap(), 0);
    let first = Period::new("j", "1").unwrap();
    assert_eq!(leases.once(&database.pool, &first, fixed(), settle).await.unwrap(), Once::Ran(()));
    let third = Period::new("j", "3").unwrap();
    assert!(third.done(&database.pool).await.unwrap().is_some());
    eventually("the marks of two are left", async || database.int("SELECT COUNT(*) FROM leastlock_once").await == 2)
        .await;
}

#[cfg(feature = "postgres")]
pub(crate) async fn a_mark_never_loosens_a_stricter_idle_timeout(database: TestDatabase<sqlx::Postgres>) {
    const BOUND: &str = "SELECT current_setting('idle_in_transaction_session_timeout')";
    for (role, found) in [("0", "1min"), ("5000", "5s"), ("90000", "1min")] {
        let set = sqlx::AssertSqlSafe(format!("SET idle_in_transaction_session_timeout = {role}"));
        let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).test_before_acquire(false);
        let pool = pool.connect(&database.url).await.unwrap();
        sqlx::raw_sql(set).execute(&pool).await.unwrap();
        let period = Period::new("idle", role).unwrap();
        let leases = leases(&database.pool);
        let ran = leases.once(&pool, &period, fixed(), async |turn| {
            let mut tx = turn.begin().await?;
            let bound: String = sqlx::query_scalar(BOUND).fetch_one(&mut **tx).await?;
            Ok(tx.complete(bound).await?)
        });
        assert_eq!(ran.await.unwrap(), Once::Ran(found.to_owned()), "{role}");
    }
}

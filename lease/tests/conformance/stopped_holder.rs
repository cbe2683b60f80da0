//! L28: a seal against transactions that hold the guard row.

#[cfg(feature = "postgres")]
mod load;

use std::time::{Duration, Instant};

use leastlock_core::{Engine, Statement};
use leastlock_lease::{CorrectnessLease, Error, Fence, LeaseSql, Leases, Permit, Sealed, SqlLeaseStore};
use leastlock_testkit::TestEngine;
use leastlock_testkit::database::sql;
use leastlock_testkit::process::{Child, child_role, hear, speak};

use crate::rig::{Rig, Sql};
use crate::world::{A_WRITES, B_WRITES, LIMIT, VALUE, fixed, leases, lock, write};

const URL: &str = "LEASTLOCK_TEST_URL";
const HOW: &str = "LEASTLOCK_TEST_HOW";
const HOLDER: &str = "stopped_holder::holder";

/// How the child comes to hold the guard row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// `fence.check` in a transaction of its own.
    Checks,
    /// `fence.begin`.
    Begins,
    /// The mistake: share-locks the guard row without a bound for idling.
    Unbounded,
}

/// Longer than a busy machine takes from the stop of the holder to the seal.
const IDLE: Duration = Duration::from_secs(2);

fn fence() -> Fence {
    Fence::new("report").unwrap().idle_timeout(IDLE)
}

async fn acquire<R: Rig>(rig: &R) -> CorrectnessLease {
    leases(rig).acquire(&lock(), fixed()).await.unwrap()
}

/// The child: seals, checks, and is stopped before it writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder() {
    if !child_role(HOLDER) {
        return;
    }
    let url = std::env::var(URL).unwrap();
    match url.split_once(':').unwrap().0 {
        #[cfg(feature = "postgres")]
        "postgres" => hold::<sqlx::Postgres>(&url).await,
        #[cfg(feature = "mysql")]
        "mysql" => hold::<sqlx::MySql>(&url).await,
        other => panic!("{other}"),
    }
}

async fn hold<DB: TestEngine + LeaseSql>(url: &str) {
    let pool = DB::connect(url).await;
    let lease = Leases::new(SqlLeaseStore::new(&pool)).acquire(&lock(), fixed()).await.unwrap();
    let permit = lease.permit().unwrap();
    fence().seal(&pool, &permit).await.unwrap();
    let how = std::env::var(HOW).unwrap();
    let written = if how == format!("{:?}", How::Begins) {
        let mut tx = fence().begin(&pool, &permit).await.unwrap();
        held();
        write(&mut tx, A_WRITES).await.is_ok() && tx.commit().await.is_ok()
    } else {
        let mut tx = pool.begin().await.unwrap();
        if how == format!("{:?}", How::Checks) {
            fence().check(&mut tx, &permit).await.unwrap();
        } else {
            let check = Statement::new(sql::<DB>(
                "SELECT 1 FROM leastlock_fence WHERE generation = $1 FOR SHARE",
                "SELECT 1 FROM leastlock_fence WHERE generation = ? LOCK IN SHARE MODE",
            ));
            check.bind(permit.token().value()).fetch_one::<DB>(&mut tx).await.unwrap();
        }
        held();
        write(&mut tx, A_WRITES).await.is_ok() && tx.commit().await.is_ok()
    };
    speak(format_args!("written: {written}"));
}

/// Here the child is stopped.
fn held() {
    speak("holding");
    let _ = hear();
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l28_seal_gets_past_a_stopped_holder_and_names_it() {
        tokio::join!(gets_past::<sqlx::Postgres>(How::Checks), gets_past::<sqlx::Postgres>(How::Begins));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l28_seal_never_goes_on_unsealed() {
        never_goes_on::<sqlx::Postgres>(How::Unbounded).await;
    }
}

#[cfg(feature = "mysql")]
mod mysql {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l28_seal_gets_past_a_stopped_holder() {
        gets_past::<sqlx::MySql>(How::Begins).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l28_seal_never_goes_on_unsealed() {
        // Beside the double a check: nothing can be set for one transaction only, that is what `begin` is for.
        tokio::join!(never_goes_on::<sqlx::MySql>(How::Unbounded), never_goes_on::<sqlx::MySql>(How::Checks));
    }
}

async fn gets_past<DB: TestEngine + LeaseSql>(how: How) {
    let (rig, mut child, (sealed, new), in_time) = seal_past_stopped_holder::<DB>(how, Duration::from_secs(30)).await;
    let sealed = sealed.expect("the idle time-out ends the stopped transaction");
    if DB::ENGINE == Engine::Postgres && in_time {
        let blocker = sealed.blockers.first().expect("whom it waited for");
        assert_eq!(blocker.state.as_deref(), Some("idle in transaction"));
    }
    let database = rig.database();
    let mut tx = fence().begin(&database.pool, &new).await.unwrap();
    write(&mut tx, B_WRITES).await.unwrap();
    tx.commit().await.unwrap();
    child.resume();
    child.send_line("go on");
    child.line_containing("written: false", LIMIT);
    assert_eq!(database.int(VALUE).await, 2);
}

/// The doubles hold the row without a bound: whoever is stopped then stops everybody.
async fn never_goes_on<DB: TestEngine + LeaseSql>(how: How) {
    let limit = IDLE * 3 / 2;
    let (rig, mut child, (seal, new), _) = seal_past_stopped_holder::<DB>(how, limit).await;
    let Err(Error::SealTimeout { waited, blockers, .. }) = seal else { panic!("{seal:?}") };
    assert!(waited >= limit, "{waited:?}");
    assert_eq!(blockers.len(), usize::from(DB::ENGINE == Engine::Postgres), "{blockers:?}");
    let database = rig.database();
    let unsealed = fence().begin(&database.pool, &new).await;
    assert!(matches!(unsealed, Err(Error::Refused { .. })), "unsealed: {unsealed:?}");
    child.resume();
    child.send_line("go on");
    child.line_containing("written: true", LIMIT);
    fence().seal(&database.pool, &new).await.expect("the way is free");
}

type Seal = (Result<Sealed, Error>, Permit);

/// A child holds the guard row in a transaction and is stopped; B acquires and seals. Answers as well whether it began to before that
/// transaction can have been ended.
async fn seal_past_stopped_holder<DB: TestEngine + LeaseSql>(
    how: How,
    limit: Duration,
) -> (Sql<DB>, Child, Seal, bool) {
    let (rig, begun) = (Sql::<DB>::create().await, Instant::now());
    let database = rig.database();
    let mut child = Child::rerun(HOLDER, &[(URL, &database.url), (HOW, &format!("{how:?}"))]);
    child.line_containing("holding", LIMIT);
    child.stop();
    rig.expire().await;
    let lease = acquire(&rig).await;
    let permit = lease.permit().unwrap();
    let in_time = begun.elapsed() < IDLE / 2;
    let sealed = fence().seal_limit(limit).seal(&database.pool, &permit).await;
    // The lease ends with the test's process; the permit keeps following it.
    std::mem::forget(lease);
    (rig, child, (sealed, permit), in_time)
}

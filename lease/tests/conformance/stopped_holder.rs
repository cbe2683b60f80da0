//! L28: a seal against transactions that hold the guard row, on PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use leastlock_core::Statement;
use leastlock_lease::{CorrectnessLease, Error, Fence, Permit, Sealed};
use leastlock_testkit::TestEngine;
use leastlock_testkit::process::{Child, child_role, hear, speak};
use sqlx::{PgPool, Postgres};

use crate::rig::{Rig, Sql};
use crate::world::{A_WRITES, B_WRITES, LIMIT, VALUE, eventually, fixed, leases, lock, write};

const URL: &str = "LEASTLOCK_TEST_URL";
const MISTAKE: &str = "LEASTLOCK_TEST_MISTAKE";
const HOLDER: &str = "stopped_holder::holder";
/// The mistake of both doubles: the guard row alone, without gate and without a bound for idling.
const CHECK_WITHOUT_BOUND: &str = "SELECT 1 FROM leastlock_fence WHERE generation = $1 FOR SHARE";
const SEAL_WITHOUT_GATE: &str = "UPDATE leastlock_fence SET generation = generation + 1";
const CHECKERS: usize = 16;

fn fence() -> Fence {
    Fence::new("report").unwrap().idle_timeout(Duration::from_secs(3))
}

async fn acquire(rig: &Sql<Postgres>) -> CorrectnessLease {
    leases(rig).acquire(&lock(), fixed()).await.unwrap()
}

/// The child: seals, checks, and is stopped before it writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder() {
    if !child_role(HOLDER) {
        return;
    }
    let pool = Postgres::connect(&std::env::var(URL).unwrap()).await;
    let leases = leastlock_lease::Leases::new(leastlock_lease::SqlLeaseStore::new(&pool));
    let lease = leases.acquire(&lock(), fixed()).await.unwrap();
    let permit = lease.permit().unwrap();
    fence().seal(&pool, &permit).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    if std::env::var(MISTAKE).is_ok() {
        let check = Statement::new(CHECK_WITHOUT_BOUND).bind(permit.token().value());
        check.fetch_one::<Postgres>(&mut tx).await.unwrap();
    } else {
        fence().check(&mut tx, &permit).await.unwrap();
    }
    speak("holding");
    let _ = hear();
    let written = write(&mut tx, A_WRITES).await.is_ok() && tx.commit().await.is_ok();
    speak(format_args!("written: {written}"));
}

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l28_seal_gets_past_a_stopped_holder_and_names_it() {
        let (rig, mut child, seal) = seal_past_stopped_holder(&[], Duration::from_secs(30)).await;
        let (sealed, new) = seal;
        let database = rig.database();
        let sealed = sealed.expect("the idle time-out ends the stopped transaction");
        let blocker = sealed.blockers.first().expect("whom it waited for");
        assert_eq!(blocker.state.as_deref(), Some("idle in transaction"));

        let mut tx = database.pool.begin().await.unwrap();
        fence().check(&mut tx, &new).await.unwrap();
        write(&mut tx, B_WRITES).await.unwrap();
        tx.commit().await.unwrap();
        child.resume();
        child.send_line("go on");
        child.line_containing("written: false", LIMIT);
        assert_eq!(database.int(VALUE).await, 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l28_seal_never_goes_on_unsealed() {
        // The double holds the row without a bound: whoever is stopped then stops everybody.
        let (rig, mut child, (seal, new)) = seal_past_stopped_holder(&[(MISTAKE, "1")], Duration::from_secs(3)).await;
        let database = rig.database();
        let Err(Error::SealTimeout { waited, blockers, .. }) = seal else { panic!("{seal:?}") };
        assert!(waited >= Duration::from_secs(3) && blockers.len() == 1, "{waited:?}, {blockers:?}");
        let mut tx = database.pool.begin().await.unwrap();
        let check = fence().check(&mut tx, &new).await;
        assert!(matches!(check, Err(Error::Refused { .. })), "unsealed: {check:?}");
        child.resume();
        child.send_line("go on");
        child.line_containing("written: true", LIMIT);
        fence().seal(&database.pool, &new).await.expect("the way is free");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l28_seal_gets_through_a_constant_load_of_checkers() {
        let rig = Sql::<Postgres>::create().await;
        let database = rig.database();
        let old = acquire(&rig).await;
        fence().seal(&database.pool, &old.permit().unwrap()).await.unwrap();
        rig.expire().await;
        let new = acquire(&rig).await;

        let load = Load::start(&database.pool, Check::OldWay, old.permit().unwrap()).await;
        let starved = seal_without_gate(&database.pool, Duration::from_secs(2)).await;
        assert_eq!(load.stop().await, CHECKERS, "the load lasted");
        let starved = starved.expect_err("the double is starved by share-lockers");
        assert_eq!(starved.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref(), Some("57014"));

        let load = Load::start(&database.pool, Check::Right, old.permit().unwrap()).await;
        let sealed = fence().seal_limit(Duration::from_secs(20)).seal(&database.pool, &new.permit().unwrap()).await;
        sealed.expect("newcomers stop at the gate");
        eventually("every checker of the old generation is refused", async || load.refused() == CHECKERS).await;
        assert_eq!(load.stop().await, 0);
    }
}

type Seal = (Result<Sealed, Error>, Permit);

/// A child holds the guard row in a transaction and is stopped; B acquires and seals.
async fn seal_past_stopped_holder(envs: &[(&str, &str)], limit: Duration) -> (Sql<Postgres>, Child, Seal) {
    let rig = Sql::<Postgres>::create().await;
    let database = rig.database();
    let url = database.url.clone();
    let envs: Vec<_> = envs.iter().copied().chain([(URL, &*url)]).collect();
    let mut child = Child::rerun(HOLDER, &envs);
    child.line_containing("holding", LIMIT);
    child.stop();
    rig.expire().await;
    let lease = acquire(&rig).await;
    let permit = lease.permit().unwrap();
    let sealed = fence().seal_limit(limit).seal(&database.pool, &permit).await;
    // The lease ends with the test's process; the permit keeps following it.
    std::mem::forget(lease);
    (rig, child, (sealed, permit))
}

#[derive(Debug, Clone, Copy)]
enum Check {
    Right,
    OldWay,
}

/// Transactions of the old holder that overlap without a gap: nobody ends one while no other is open, unless the load is over
/// or a newcomer has been refused.
struct Load {
    shared: Arc<Shared>,
    checkers: Vec<tokio::task::JoinHandle<bool>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    begun: AtomicUsize,
    /// Transactions that have passed the check and are not being ended.
    open: AtomicUsize,
    refused: AtomicUsize,
}

impl Load {
    async fn start(pool: &PgPool, check: Check, permit: Permit) -> Self {
        let (shared, permit) = (Arc::new(Shared::default()), Arc::new(permit));
        let checkers = (0..CHECKERS).map(|_| {
            let (pool, permit, shared) = (pool.clone(), Arc::clone(&permit), Arc::clone(&shared));
            tokio::spawn(async move { shared.check_again_and_again(&pool, check, &permit).await })
        });
        let checkers = checkers.collect();
        eventually("the load has begun", async || shared.begun.load(Ordering::SeqCst) >= CHECKERS).await;
        Self { shared, checkers }
    }

    fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::SeqCst)
    }

    /// Ends the load; answers how many checkers went on until then.
    async fn stop(self) -> usize {
        self.shared.stop.store(true, Ordering::SeqCst);
        let mut lasted = 0;
        for checker in self.checkers {
            lasted += usize::from(checker.await.unwrap());
        }
        lasted
    }
}

impl Shared {
    /// Answers whether it went on until the load was over.
    async fn check_again_and_again(&self, pool: &PgPool, check: Check, permit: &Permit) -> bool {
        while !self.stop.load(Ordering::SeqCst) {
            let mut tx = pool.begin().await.unwrap();
            if !passes(check, &mut tx, permit).await {
                self.refused.fetch_add(1, Ordering::SeqCst);
                return false;
            }
            self.open.fetch_add(1, Ordering::SeqCst);
            self.begun.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(5..20))).await;
            while !self.may_end() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tx.commit().await.unwrap();
        }
        true
    }

    fn may_end(&self) -> bool {
        let over = self.stop.load(Ordering::SeqCst) || self.refused.load(Ordering::SeqCst) > 0;
        let least = if over { 1 } else { 2 };
        let ended = |open: usize| (open >= least).then(|| open - 1);
        self.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, ended).is_ok()
    }
}

async fn passes(check: Check, tx: &mut sqlx::Transaction<'_, Postgres>, permit: &Permit) -> bool {
    match check {
        Check::Right => fence().check(tx, permit).await.is_ok(),
        Check::OldWay => {
            let check = Statement::new(CHECK_WITHOUT_BOUND).bind(permit.token().value());
            check.fetch_optional::<Postgres>(tx).await.unwrap().is_some()
        }
    }
}

async fn seal_without_gate(pool: &PgPool, limit: Duration) -> Result<u64, sqlx::Error> {
    let mut tx = pool.begin().await?;
    let bound = Statement::new("SELECT set_config('statement_timeout', $1::bigint::text, true)");
    bound.bind(i64::try_from(limit.as_millis()).unwrap()).fetch_one::<Postgres>(&mut tx).await?;
    let sealed = write(&mut tx, SEAL_WITHOUT_GATE).await?;
    tx.commit().await?;
    Ok(sealed)
}

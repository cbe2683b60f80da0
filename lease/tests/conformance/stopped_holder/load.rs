//! A seal against share-lockers that never leave the guard row, on PostgreSQL: `InnoDB` lets nobody past a waiter.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use leastlock_core::Statement;
use leastlock_lease::Permit;
use sqlx::{PgPool, Postgres};

use super::{acquire, fence};
use crate::rig::{Rig, Sql};
use crate::world::{eventually, write};

/// The mistakes of both doubles: the guard row alone, without gate.
const CHECK_WITHOUT_GATE: &str = "SELECT 1 FROM leastlock_fence WHERE generation = $1 FOR SHARE";
const SEAL_WITHOUT_GATE: &str = "UPDATE leastlock_fence SET generation = generation + 1";
const CHECKERS: usize = 16;

mod postgres {
    use super::*;

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
            let check = Statement::new(CHECK_WITHOUT_GATE).bind(permit.token().value());
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

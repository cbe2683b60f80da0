//! Seals that find open transactions (not on SQLite: it has one writer at a time, and a stopped one blocks the file).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

#[cfg(feature = "postgres")]
use leastlock_core::Dialect;
use leastlock_core::{Engine, Statement};
use leastlock_partition_worker::progress::{Entry, Guard, Seal};
use leastlock_partition_worker::{Epoch, Progress, Timeouts};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::sql;
use leastlock_testkit::process::{Child, child_role, hear, speak};
use sqlx::{Pool, Transaction};
use tokio::task::JoinSet;

use crate::bench::{Fence, GROUP, Tested, effect, entry, handle, owner, owner_with, partition, prepared, sealed};
use crate::doubles;
use crate::suite::effects_beside_a_fold;

const LIMIT: Duration = Duration::from_secs(30);

fn impatient() -> Timeouts {
    Timeouts { seal: Duration::from_millis(400), ..Timeouts::default() }
}

async fn opened<DB: Tested>(pool: &Pool<DB>, fence: Fence, epoch: Epoch, offset: i64) -> Transaction<'static, DB> {
    let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    assert!(fence.enter(&mut tx, epoch, offset).await);
    tx
}

async fn backend<DB: Tested>(tx: &mut Transaction<'_, DB>) -> i64 {
    let own = sql::<DB>("SELECT pg_backend_pid()::bigint", "SELECT CAST(CONNECTION_ID() AS SIGNED)");
    Statement::new(own).fetch_one::<DB>(tx).await.and_then(|row| row.int(0)).expect("an id")
}

pub(crate) async fn p16_newcomers_stop_at_the_gate_and_the_seal_reports_who_is_in_the_way<DB: Tested>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let epoch = sealed(&owner(&database, "first"), 10).await.epoch;
    let mut open = opened(&database.pool, Fence::real::<DB>(), epoch, 10).await;
    let pid = backend(&mut open).await;

    let second = owner_with(&database, "second", impatient());
    let next = second.claim_gate(&partition()).await.expect("the gate is never waited for");
    assert!(!handle(&database, Fence::real::<DB>(), epoch, 11).await, "a newcomer is fenced while one is open");
    let deadline = Instant::now() + Duration::from_secs(30);
    let blockers = loop {
        match second.raise_guard(&partition(), next).await.expect("an attempt") {
            // What InnoDB tells of transactions is a copy, which is not renewed while others read it again and again.
            Guard::Blocked { blockers } if blockers.is_empty() && Instant::now() < deadline => {}
            Guard::Blocked { blockers } => break blockers,
            other => panic!("it went on beside an open handler: {other:?}"),
        }
    };
    assert_eq!(blockers.iter().map(|blocker| blocker.pid).collect::<Vec<_>>(), [pid]);
    assert_eq!(blockers[0].state, sql::<DB>("idle in transaction", "Sleep"));
    assert!(!handle(&database, Fence::real::<DB>(), next, 10).await, "nobody is let in unsealed");

    effect::<DB>(&mut open, 10, "first").await;
    open.commit().await.expect("the open handler may still commit");
    match second.raise_guard(&partition(), next).await.expect("an attempt") {
        Guard::Raised(sealed) => assert!(sealed.finished.contains(10), "what was waited for is seen: {sealed:?}"),
        other => panic!("nothing is in the way: {other:?}"),
    }
}

/// Whether a handler of an earlier epoch is let in beside an open one, when the next epoch has been claimed.
async fn lets_a_newcomer_in<DB: Tested>(database: TestDatabase<DB>, fence: Fence) -> bool {
    let database = prepared(database).await;
    let epoch = sealed(&owner(&database, "first"), 10).await.epoch;
    let open = opened(&database.pool, fence, epoch, 10).await;
    owner(&database, "second").claim_gate(&partition()).await.expect("the gate is never waited for");
    let entered = handle(&database, fence, epoch, 11).await;
    open.rollback().await.expect("a rollback");
    entered
}

pub(crate) async fn p16_a_newcomer_stops_at_the_gate<DB: Tested>(database: TestDatabase<DB>) {
    assert!(!lets_a_newcomer_in(database, Fence::real::<DB>()).await);
}

pub(crate) async fn p16_double_a_fence_without_the_gate_lets_newcomers_in<DB: Tested>(database: TestDatabase<DB>) {
    assert!(lets_a_newcomer_in(database, doubles::without_gate::<DB>()).await);
}

/// Whether a handler that was let in before a seal could commit after it.
async fn commits_after_the_seal<DB: Tested>(database: TestDatabase<DB>, fence: Fence) -> bool {
    let database = prepared(database).await;
    let epoch = sealed(&owner(&database, "first"), 10).await.epoch;
    let mut open = opened(&database.pool, fence, epoch, 10).await;
    let second = owner_with(&database, "second", impatient());
    let mut seal = tokio::spawn(async move { second.seal(&partition()).await });
    // Nothing must come of it here, so waiting longer only makes the check stronger.
    let sealed_first = tokio::time::timeout(Duration::from_secs(1), &mut seal).await.is_ok();
    effect::<DB>(&mut open, 10, "first").await;
    let committed = open.commit().await.is_ok();
    if !sealed_first {
        let Ok(Ok(Seal::Sealed(sealed))) = tokio::time::timeout(LIMIT, seal).await.expect("a seal in time") else {
            panic!("the seal goes on once the handler has ended");
        };
        assert!(sealed.finished.contains(10) && !sealed.blockers.is_empty(), "{sealed:?}");
    }
    sealed_first && committed
}

pub(crate) async fn p16_a_seal_does_not_end_before_an_open_handler_does<DB: Tested>(database: TestDatabase<DB>) {
    assert!(!commits_after_the_seal(database, Fence::real::<DB>()).await);
}

pub(crate) async fn p16_double_a_check_without_the_share_lock_lets_a_zombie_through<DB: Tested>(
    database: TestDatabase<DB>,
) {
    assert!(commits_after_the_seal(database, doubles::without_share_lock::<DB>()).await);
}

/// Sixteen that hold the guard row's share lock in turn, so that there is never a moment without one.
struct Load {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
}

impl Load {
    async fn of_sixteen<DB: Tested>(database: &TestDatabase<DB>, epoch: Epoch) -> Self {
        let (stop, offset) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(10)));
        let mut tasks = JoinSet::new();
        for _ in 0..16 {
            let (pool, stop, offset) = (database.pool.clone(), Arc::clone(&stop), Arc::clone(&offset));
            tasks.spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
                    if !Fence::real::<DB>().enter(&mut tx, epoch, offset.fetch_add(1, Ordering::SeqCst)).await {
                        return;
                    }
                    // Long beside the pause until the next, however busy the machine is.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    tx.commit().await.expect("a commit");
                }
            });
        }
        while database.int("SELECT count(*) FROM leastlock_partition_done").await < 32 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Self { tasks, stop }
    }

    async fn end(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("the load does not panic");
        }
    }
}

pub(crate) async fn p16_a_seal_gets_through_a_constant_load_of_share_lockers<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let epoch = sealed(&owner(&database, "first"), 10).await.epoch;
    let load = Load::of_sixteen(&database, epoch).await;
    let second = owner(&database, "second");
    let next = second.claim_gate(&partition()).await.expect("the gate is never waited for");
    let raised = second.raise_guard(&partition(), next).await.expect("an attempt");
    assert!(matches!(raised, Guard::Raised(_)), "one attempt is enough: {raised:?}");
    load.end().await;
    let finished = database.int("SELECT count(*) FROM leastlock_partition_done").await;
    let Guard::Raised(sealed) = raised else { unreachable!("asserted above") };
    assert_eq!(i64::try_from(sealed.finished.count()), Ok(finished), "nothing was committed after the seal");
}

/// On MariaDB it would not: there newcomers queue behind an exclusive waiter.
#[cfg(feature = "postgres")]
pub(crate) async fn p16_double_a_seal_without_the_gate_starves(database: TestDatabase<sqlx::Postgres>) {
    let database = prepared(database).await;
    let epoch = sealed(&owner(&database, "first"), 10).await.epoch;
    let load = Load::of_sixteen(&database, epoch).await;
    let mut is_starved = false;
    for _ in 0..5 {
        let mut tx = database.pool.begin_with(sqlx::Postgres::BEGIN_WRITE).await.expect("a transaction");
        sqlx::query("SET LOCAL statement_timeout = 2000").execute(&mut *tx).await.expect("a setting");
        let sealed = sqlx::query(doubles::ONE_STEP_SEAL).execute(&mut *tx).await;
        let code = sealed.err().and_then(|error| error.as_database_error().and_then(|e| e.code().map(String::from)));
        is_starved = code.as_deref() == Some("57014");
        tx.rollback().await.expect("the seal is given up");
        if is_starved {
            break;
        }
    }
    load.end().await;
    assert!(is_starved, "two seconds are enough five times, where the two steps need one attempt");
}

/// The child's part: enters as the handler of offset 10, and commits when it is told to.
pub(crate) fn stopped_handler_child<DB: Tested>(name: &str) {
    if !child_role(name) {
        return;
    }
    let env = |name: &str| std::env::var(name).expect("the parent sets it");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let pool = DB::connect(&env("URL")).await;
        if env("DOUBLE") == "yes" {
            // What ends the others' wait is not there: on PostgreSQL the fence sets it, on MariaDB `begin`.
            let fence = Fence::one(sql::<DB>(doubles::WITHOUT_IDLE_TIMEOUT, DB::FENCE_ENTER));
            let mut tx = opened(&pool, fence, Epoch::new(1), 10).await;
            wait_and_write::<DB>(&mut tx).await;
            return;
        }
        let timeouts = Timeouts { idle: Duration::from_millis(1_500), ..Timeouts::default() };
        let progress = Progress::new(pool, GROUP, "stopped").with_timeouts(timeouts);
        let mut tx = progress.begin().await.expect("a transaction");
        let entry = progress.enter(&mut tx, &partition(), Epoch::new(1), 10).await.expect("the fence answers");
        assert_eq!(entry, Entry::Entered);
        let written = wait_and_write::<DB>(&mut tx).await;
        speak(if written && progress.commit(tx).await.is_ok() { "committed" } else { "refused" });
    });
}

async fn wait_and_write<DB: Tested>(tx: &mut Transaction<'_, DB>) -> bool {
    speak("entered");
    let _ = hear();
    let insert = Statement::new("INSERT INTO effect (record_offset, owner) VALUES (10, 'stopped')");
    insert.execute::<DB>(tx).await.is_ok()
}

async fn stopped_child<DB: Tested>(database: &TestDatabase<DB>, double: &str) -> (Child, Progress<DB>) {
    assert_eq!(sealed(&owner(database, "stopped"), 10).await.epoch, Epoch::new(1));
    let role = match DB::ENGINE {
        Engine::MySql => "stopped_handler_mysql",
        _ => "stopped_handler_postgres",
    };
    let mut child = Child::rerun(role, &[("URL", &database.url), ("DOUBLE", double)]);
    child.line_containing("entered", LIMIT);
    child.stop();
    (child, owner_with(database, "newcomer", impatient()))
}

pub(crate) async fn p16_a_stopped_handler_holds_up_the_seal_no_longer_than_the_idle_timeout<DB: Tested>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let (mut child, newcomer) = stopped_child(&database, "no").await;
    let seal = tokio::time::timeout(LIMIT, newcomer.seal(&partition())).await.expect("the idle time-out ends the wait");
    let Ok(Seal::Sealed(sealed)) = seal else { panic!("{seal:?}") };
    assert!(!sealed.blockers.is_empty(), "it was reported who was in the way");
    assert!(sealed.finished.is_empty());
    assert!(handle(&database, Fence::real::<DB>(), sealed.epoch, 10).await);
    child.resume();
    child.send_line("go on");
    child.line_containing("refused", LIMIT);
    assert_eq!(database.int("SELECT count(*) FROM effect WHERE owner = 'stopped'").await, 0);
    assert_eq!(database.int("SELECT count(*) FROM effect").await, 1);
}

pub(crate) async fn p16_double_a_fence_without_an_idle_timeout_holds_it_up_for_ever<DB: Tested>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let (mut child, newcomer) = stopped_child(&database, "yes").await;
    let held_up = tokio::time::timeout(Duration::from_secs(5), newcomer.seal(&partition())).await;
    assert!(held_up.is_err(), "the real fence has let go by now: {held_up:?}");
    assert_eq!(database.int("SELECT epoch FROM leastlock_partition").await, 1, "it never goes on unsealed");
    let newest = Epoch::new(database.int("SELECT epoch FROM leastlock_partition_gate").await);
    let entry = entry(&newcomer, newest, 11).await;
    assert_eq!(entry, Entry::Fenced);
    child.kill();
}

#[cfg(feature = "postgres")]
pub(crate) async fn p20_double_a_key_share_lock_applies_it_twice(database: TestDatabase<sqlx::Postgres>) {
    assert_eq!(effects_beside_a_fold(database, Fence::one(doubles::KEY_SHARE)).await, 2);
}

pub(crate) async fn p20_double_a_comparison_outside_the_locked_scan_applies_it_twice<DB: Tested>(
    database: TestDatabase<DB>,
) {
    assert_eq!(effects_beside_a_fold(database, doubles::compared_outside::<DB>()).await, 2);
}

pub(crate) async fn p16_a_batch_stops_at_the_gate<DB: Tested>(database: TestDatabase<DB>) {
    assert!(!lets_a_newcomer_in(database, Fence::batch::<DB>()).await);
}

pub(crate) async fn p16_a_seal_does_not_end_before_an_open_batch_does<DB: Tested>(database: TestDatabase<DB>) {
    assert!(!commits_after_the_seal(database, Fence::batch::<DB>()).await);
}

pub(crate) async fn p16_double_a_batch_without_the_share_lock_lets_a_zombie_through<DB: Tested>(
    database: TestDatabase<DB>,
) {
    assert!(commits_after_the_seal(database, doubles::batch_without_share_lock::<DB>()).await);
}

pub(crate) async fn p20_double_a_batch_compared_outside_the_locked_scan_is_applied_twice<DB: Tested>(
    database: TestDatabase<DB>,
) {
    assert_eq!(effects_beside_a_fold(database, doubles::batch_compared_outside::<DB>()).await, 2);
}

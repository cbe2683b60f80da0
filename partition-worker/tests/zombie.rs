//! P4, P12: a worker that is stopped beyond its session time-out, on the real broker. SQLite cannot have it: a stopped writer blocks
//! its file.
#![cfg(all(feature = "kafka", any(feature = "postgres", feature = "mysql")))]

use std::time::Duration;

use leastlock_core::Engine;
use leastlock_partition_worker::{Failure, Handler, Record, Timeouts};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::process::{Child, child_role, hear, speak};
use sqlx::{Pool, Transaction};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::rig::{Bus, LIMIT, Rig, Told, apply, builder, start};

#[allow(dead_code, reason = "this file needs a part of it")]
#[path = "rebalance/kick.rs"]
mod kick;
#[allow(dead_code, reason = "this file needs a part of it")]
#[path = "worker/rig.rs"]
mod rig;
#[path = "zombie/unaware.rs"]
mod unaware;

const KEYS: [&str; 3] = ["85123A", "71053", "84406B"];

/// How the stopped worker writes.
const FENCED: &str = "in the fenced transaction";
const DOUBLE: &str = "in a transaction of its own";

fn timeouts() -> Timeouts {
    Timeouts { seal: Duration::from_millis(500), idle: Duration::from_millis(1_500), ..Timeouts::default() }
}

fn short_session() -> Vec<(&'static str, String)> {
    vec![("session.timeout.ms", "1500".to_owned()), ("heartbeat.interval.ms", "300".to_owned())]
}

/// Lets the child's handler go on.
static GO_ON: Semaphore = Semaphore::const_new(0);

/// The child's handler: stands still at record 4, until it is told to go on.
struct Zombie<DB: Bus> {
    pool: Pool<DB>,
    fenced: bool,
}

impl<DB: Bus> Handler<DB> for Zombie<DB> {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        if record.offset() == 4 {
            speak("holding");
            // It blocks its thread, as a handler should not, so that it writes before it can be cancelled.
            let go_on = async { GO_ON.acquire().await.expect("never closed").forget() };
            tokio::task::block_in_place(|| Handle::current().block_on(go_on));
        }
        if self.fenced {
            return apply::<DB>(tx, record, "zombie").await;
        }
        let (pool, record) = (self.pool.clone(), record.clone());
        let aside = tokio::spawn(async move { apply::<DB>(&mut *pool.acquire().await?, &record, "zombie").await });
        aside.await?
    }
}

#[cfg(feature = "postgres")]
#[test]
fn zombie_worker_postgres() {
    zombie_worker::<sqlx::Postgres>("zombie_worker_postgres");
}

#[cfg(feature = "mysql")]
#[test]
fn zombie_worker_mysql() {
    zombie_worker::<sqlx::MySql>("zombie_worker_mysql");
}

fn zombie_worker<DB: Bus>(name: &str) {
    if !child_role(name) {
        return;
    }
    let env = |name: &str| std::env::var(name).expect("the parent sets it");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let pool = DB::connect(&env("URL")).await;
        let (bootstrap, group, topic) = (env("BOOTSTRAP"), env("GROUP"), env("TOPIC"));
        let worker =
            builder(&pool, timeouts(), &bootstrap, &group, &topic, &short_session()).build().expect("a worker");
        let shutdown = CancellationToken::new();
        let handler = Zombie { fenced: env("WRITES") == FENCED, pool };
        let worker = tokio::spawn(worker.run(handler, shutdown.clone()));
        while tokio::task::spawn_blocking(hear).await.expect("no panic").is_some_and(|line| line != "end") {
            GO_ON.add_permits(1);
        }
        shutdown.cancel();
        let summary = worker.await.expect("no panic").expect("fencing stops partitions, never the worker");
        speak(format!("ended with {summary:?}"));
    });
}

/// Answers how many effects of records that were the newcomer's came from the worker that had been stopped.
async fn effects_of_a_zombie<DB: Bus>(database: TestDatabase<DB>, writes: &str) -> i64 {
    let mut rig = Rig::new(database, 1).await;
    rig.settings = short_session();
    rig.produce(&KEYS[..1], 1..=4).await;
    let mut child = Child::rerun(
        if DB::ENGINE == Engine::MySql { "zombie_worker_mysql" } else { "zombie_worker_postgres" },
        &[
            ("URL", &rig.database.url),
            ("BOOTSTRAP", rig.broker.bootstrap()),
            ("GROUP", &rig.group),
            ("TOPIC", &rig.topic),
            ("WRITES", writes),
        ],
    );
    rig.effects(4).await;
    rig.produce(&KEYS[..1], 5..=5).await;
    child.line_containing("holding", LIMIT);
    child.stop();
    rig.produce(&KEYS[..1], 6..=8).await;

    let newcomer = start(rig.builder_with(timeouts()), Told::plain("newcomer"));
    rig.until("SELECT count(*) FROM effect WHERE owner = 'newcomer'", |found| found == 4, "takeover").await;
    child.resume();
    child.send_line("go on");
    rig.produce(&KEYS[..1], 9..=12).await;
    rig.until("SELECT count(DISTINCT number) FROM effect", |found| found == 12, "effects of all records").await;
    // The handler is tried again if the database failed it; then it is to meet the fence, not the end of the worker.
    child.send_line("go on");
    child.send_line("end");
    child.line_containing("ended with", LIMIT);
    newcomer.stop().await;
    rig.database.int("SELECT count(*) FROM effect WHERE owner = 'zombie' AND number BETWEEN 5 AND 8").await
}

mod suite {
    use super::{Bus, DOUBLE, FENCED, effects_of_a_zombie};
    use leastlock_testkit::TestDatabase;

    pub(crate) use crate::unaware::{
        p12_a_batch_that_starts_after_a_worker_was_stopped_is_fenced,
        p12_double_what_starts_without_a_fence_takes_effect, p12_what_a_worker_starts_after_it_was_stopped_is_fenced,
    };

    pub(crate) async fn p4_p12_a_worker_stopped_beyond_its_session_writes_nothing_more<DB: Bus>(
        database: TestDatabase<DB>,
    ) {
        assert_eq!(effects_of_a_zombie(database, FENCED).await, 0);
    }

    pub(crate) async fn p4_p12_double_a_worker_that_writes_beside_the_fence_does<DB: Bus>(database: TestDatabase<DB>) {
        assert!(effects_of_a_zombie(database, DOUBLE).await > 0);
    }
}

leastlock_testkit::mount!(suite on postgres and mysql:
    p4_p12_a_worker_stopped_beyond_its_session_writes_nothing_more,
    p4_p12_double_a_worker_that_writes_beside_the_fence_does,
    p12_what_a_worker_starts_after_it_was_stopped_is_fenced,
    p12_a_batch_that_starts_after_a_worker_was_stopped_is_fenced,
    p12_double_what_starts_without_a_fence_takes_effect,
);

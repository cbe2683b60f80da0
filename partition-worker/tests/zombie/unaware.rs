//! A stopped worker that wakes up and does not know: its group went on without it, and it has not asked since. Nothing of it was open
//! meanwhile, so that no time-out has ended anything; what it starts now meets the fence.

use std::time::{Duration, Instant};

use leastlock_core::Engine;
use leastlock_partition_worker::assignment::Phase;
use leastlock_partition_worker::{
    BatchFailure, BatchHandler, Effect, Failure, Handler, Probe, Process, Record, Worker,
};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::process::{Child, child_role, hear, speak};
use rdkafka::ClientConfig;
use sqlx::{Pool, Transaction};
use tokio_util::sync::CancellationToken;

use super::{KEYS, short_session, timeouts};
use crate::kick;
use crate::rig::{Bus, LIMIT, Rig, Told, apply, builder, start};

/// How the stopped worker handles records.
const SINGLY: &str = "singly";
const IN_BATCHES: &str = "in batches";
/// The double.
const WITHOUT_A_FENCE: &str = "without a fence";

const NEVER: Duration = Duration::from_hours(1);

/// It would be told of its loss when it next asks.
fn asks_seldom() -> Vec<(&'static str, String)> {
    vec![("session.timeout.ms", "300000".to_owned()), ("heartbeat.interval.ms", "100000".to_owned())]
}

struct Zombie<DB: Bus>(Pool<DB>);

impl<DB: Bus> Handler<DB> for Zombie<DB> {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        apply::<DB>(tx, record, "zombie").await
    }
}

impl<DB: Bus> BatchHandler<DB> for Zombie<DB> {
    async fn handle(&self, batch: &[Record], tx: &mut Transaction<'_, DB>) -> Result<(), BatchFailure> {
        for record in batch {
            apply::<DB>(tx, record, "zombie").await?;
        }
        Ok(())
    }
}

impl<DB: Bus> Process for Zombie<DB> {
    async fn process(&self, record: &Record) -> Result<(), Failure> {
        apply::<DB>(&mut *self.0.acquire().await?, record, "zombie").await
    }
}

#[cfg(feature = "postgres")]
#[test]
fn unaware_worker_postgres() {
    unaware_worker::<sqlx::Postgres>("unaware::unaware_worker_postgres");
}

#[cfg(feature = "mysql")]
#[test]
fn unaware_worker_mysql() {
    unaware_worker::<sqlx::MySql>("unaware::unaware_worker_mysql");
}

fn unaware_worker<DB: Bus>(name: &str) {
    if !child_role(name) {
        return;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(live::<DB>());
}

async fn live<DB: Bus>() {
    let env = |name: &str| std::env::var(name).expect("the parent sets it");
    let pool = DB::connect(&env("URL")).await;
    let (bootstrap, group, topic, how) = (env("BOOTSTRAP"), env("GROUP"), env("TOPIC"), env("HOW"));
    let (handler, shutdown) = (Zombie(pool.clone()), CancellationToken::new());
    // No fold and no commit of its own: it stands still between its handlers, and nothing tells it.
    let fenced = builder(&pool, timeouts(), &bootstrap, &group, &topic, &asks_seldom());
    let fenced = fenced.fold_every(NEVER).commit_every(NEVER).rejoin_after(NEVER).build().expect("a worker");
    let (probe, running) = match how.as_str() {
        SINGLY => (fenced.probe(), tokio::spawn(fenced.run(handler, shutdown.clone()))),
        IN_BATCHES => (fenced.probe(), tokio::spawn(fenced.run_batches(handler, shutdown.clone()))),
        _ => {
            let worker = unfenced(&bootstrap, &group, &topic);
            (worker.probe(), tokio::spawn(worker.run(handler, shutdown.clone())))
        }
    };
    let told = tokio::spawn(tells_when_fenced(probe));
    while tokio::task::spawn_blocking(hear).await.expect("no panic").is_some_and(|line| line != "end") {}
    shutdown.cancel();
    let summary = running.await.expect("no panic").expect("fencing stops partitions, never the worker");
    told.abort();
    speak(format!("ended with {summary:?}"));
}

fn unfenced(bootstrap: &str, group: &str, topic: &str) -> Worker<leastlock_partition_worker::effect::AtLeastOnce> {
    let mut kafka = ClientConfig::new();
    kafka.set("bootstrap.servers", bootstrap).set("group.id", group);
    for (name, value) in asks_seldom() {
        kafka.set(name, value);
    }
    let worker = Worker::builder(kafka).topic(topic).effect(Effect::at_least_once());
    worker.commit_every(NEVER).build().expect("a worker")
}

async fn tells_when_fenced(probe: Probe) {
    loop {
        if probe.health().partitions.values().any(|phase| *phase == Phase::Fenced) {
            speak("fenced");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Answers how many effects of the newcomer's records came from the worker that had been stopped, and whether it was fenced.
async fn effects_of_an_unaware_zombie<DB: Bus>(database: TestDatabase<DB>, how: &str) -> (i64, bool) {
    let mut rig = Rig::new(database, 1).await;
    rig.settings = short_session();
    rig.produce(&KEYS[..1], 1..=4).await;
    let mut child = Child::rerun(
        if DB::ENGINE == Engine::MySql { "unaware::unaware_worker_mysql" } else { "unaware::unaware_worker_postgres" },
        &[
            ("URL", &rig.database.url),
            ("BOOTSTRAP", rig.broker.bootstrap()),
            ("GROUP", &rig.group),
            ("TOPIC", &rig.topic),
            ("HOW", how),
        ],
    );
    rig.effects(4).await;
    child.stop();
    // What the group does once the session is over.
    let (bootstrap, group) = (rig.broker.bootstrap().to_owned(), rig.group.clone());
    let members = tokio::task::spawn_blocking(move || kick::members(&bootstrap, &group));
    assert_eq!(members.await.expect("no panic"), 1, "the stopped worker was the only member");
    rig.produce(&KEYS[..1], 5..=8).await;
    let newcomer = start(rig.builder_with(timeouts()), Told::plain("newcomer"));
    let its_own = "SELECT count(DISTINCT number) FROM effect WHERE owner = 'newcomer' AND number >= 5";
    rig.until(its_own, |found| found == 4, "takeover").await;

    child.resume();
    // The records are delivered to it as well.
    let of_the_zombie = "SELECT count(*) FROM effect WHERE owner = 'zombie' AND number >= 5";
    let deadline = Instant::now() + LIMIT;
    let (effects, fenced) = loop {
        let fenced = child.lines().iter().any(|line| line == "fenced");
        let effects = rig.database.int(of_the_zombie).await;
        if fenced || effects == 4 {
            break (effects, fenced);
        }
        assert!(Instant::now() < deadline, "it starts nothing: {child:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    child.send_line("end");
    let ended = child.line_containing("ended with", LIMIT);
    assert!(ended.contains(if fenced { "fenced: 1" } else { "fenced: 0" }), "{ended}");
    newcomer.stop().await;
    (rig.database.int(of_the_zombie).await.max(effects), fenced)
}

pub(crate) async fn p12_what_a_worker_starts_after_it_was_stopped_is_fenced<DB: Bus>(database: TestDatabase<DB>) {
    assert_eq!(effects_of_an_unaware_zombie(database, SINGLY).await, (0, true));
}

pub(crate) async fn p12_a_batch_that_starts_after_a_worker_was_stopped_is_fenced<DB: Bus>(database: TestDatabase<DB>) {
    assert_eq!(effects_of_an_unaware_zombie(database, IN_BATCHES).await, (0, true));
}

pub(crate) async fn p12_double_what_starts_without_a_fence_takes_effect<DB: Bus>(database: TestDatabase<DB>) {
    assert_eq!(effects_of_an_unaware_zombie(database, WITHOUT_A_FENCE).await, (4, false));
}

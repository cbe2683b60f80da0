//! A record that brings down the process which handles it, again and again, with real processes.
#![cfg(all(feature = "kafka", any(feature = "sqlite", feature = "postgres", feature = "mysql")))]

use std::time::{Duration, Instant};

use leastlock_core::Engine;
use leastlock_partition_worker::dead_letter::Origin;
use leastlock_partition_worker::on_failure::Cause;
use leastlock_partition_worker::{
    BatchFailure, BatchHandler, Failure, Handler, OnFailure, Record, Timeouts, WorkerSql,
};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::process::{Child, child_role, hear, speak};
use sqlx::Transaction;
use tokio_util::sync::CancellationToken;

use crate::rig::{Bus, LIMIT, Rig, apply, builder};

#[allow(dead_code, reason = "this file needs a part of it")]
#[path = "worker/rig.rs"]
mod rig;

/// The key of the record that kills, and the others'.
const KILLER: &str = "85123A";
const OTHERS: [&str; 6] = ["71053", "84406B", "84029G", "84029E", "22752", "21730"];
/// Records of each of the others: so many that some run whenever the process dies.
const EACH: i64 = 8;
/// How the child handles records.
const SINGLY: &str = "singly";
const IN_BATCHES: &str = "in batches";
/// Of so many deaths the record is not tried again.
const DEATHS: u32 = 4;

/// The child's handler: it aborts at the killer's second record, and takes its time at the others.
struct Victim;

impl<DB: WorkerSql> Handler<DB> for Victim {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        if record.key() == Some(KILLER.as_bytes()) && record.value() == Some(b"2") {
            speak("dying");
            // As a stack that overflows would: no destructor runs, and nobody is told.
            std::process::abort();
        }
        apply::<DB>(tx, record, "victim").await?;
        tokio::time::sleep(Duration::from_millis(60)).await;
        Ok(())
    }
}

/// The same in batches.
impl<DB: WorkerSql> BatchHandler<DB> for Victim {
    async fn handle(&self, batch: &[Record], tx: &mut Transaction<'_, DB>) -> Result<(), BatchFailure> {
        for record in batch {
            Handler::<DB>::handle(self, record, tx).await?;
        }
        Ok(())
    }
}

#[test]
fn victim() {
    if !child_role("victim") {
        return;
    }
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    match env("ENGINE").as_str() {
        #[cfg(feature = "sqlite")]
        "sqlite" => runtime.block_on(live::<sqlx::Sqlite>()),
        #[cfg(feature = "postgres")]
        "postgres" => runtime.block_on(live::<sqlx::Postgres>()),
        #[cfg(feature = "mysql")]
        "mysql" => runtime.block_on(live::<sqlx::MySql>()),
        other => panic!("{other}"),
    }
}

fn env(name: &str) -> String {
    std::env::var(name).expect("the parent sets it")
}

async fn live<DB: Bus>() {
    let pool = DB::connect(&env("URL")).await;
    // The group waits for so long until it gives the partition of a process that has died to the next one. The mock cluster begins to
    // count at the last sign of life before a rebalance, however long that takes.
    let session = if DB::ENGINE == Engine::Sqlite { "2500" } else { "1500" };
    let settings = [("session.timeout.ms", session.to_owned()), ("heartbeat.interval.ms", "300".to_owned())];
    let (bootstrap, group, topic) = (env("BOOTSTRAP"), env("GROUP"), env("TOPIC"));
    let worker = builder(&pool, Timeouts::default(), &bootstrap, &group, &topic, &settings)
        .on_failure(OnFailure::dead_letter(env("DEAD")))
        .poison_after(env("POISON_AFTER").parse().expect("a number"))
        .max_batch(8)
        .build()
        .expect("a worker");
    let shutdown = CancellationToken::new();
    let worker = match env("HOW").as_str() {
        SINGLY => tokio::spawn(worker.run(Victim, shutdown.clone())),
        _ => tokio::spawn(worker.run_batches(Victim, shutdown.clone())),
    };
    while tokio::task::spawn_blocking(hear).await.expect("no panic").is_some() {}
    shutdown.cancel();
    worker.await.expect("no panic").expect("the worker ends without an error");
    speak("ended in peace");
}

struct Outcome<DB: Bus> {
    rig: Rig<DB>,
    dead: String,
    deaths: u32,
}

/// Starts a process again whenever it has died, until all that can be handled is, or it has died `at_most` times.
async fn lives<DB: Bus>(database: TestDatabase<DB>, how: &str, poison_after: u32, at_most: u32) -> Outcome<DB> {
    let rig = Rig::new(database, 1).await;
    let dead = rig.broker.topic(1).await;
    rig.produce(&[KILLER], 1..=3).await;
    rig.produce(&OTHERS, 1..=EACH).await;
    let all = 2 + i64::try_from(OTHERS.len()).expect("small") * EACH;
    let engine = match DB::ENGINE {
        Engine::Sqlite => "sqlite",
        Engine::MySql => "mysql",
        _ => "postgres",
    };
    let poison_after = poison_after.to_string();
    let envs = [
        ("ENGINE", engine),
        ("URL", &rig.database.url),
        ("BOOTSTRAP", rig.broker.bootstrap()),
        ("GROUP", &rig.group),
        ("TOPIC", &rig.topic),
        ("DEAD", &dead),
        ("HOW", how),
        ("POISON_AFTER", &poison_after),
    ];
    let mut deaths = 0;
    while deaths < at_most {
        let mut child = Child::rerun("victim", &envs);
        let deadline = Instant::now() + LIMIT;
        loop {
            if child.has_ended() {
                assert!(child.lines().iter().any(|line| line.contains("dying")), "{child:?}");
                deaths += 1;
                break;
            }
            if rig.database.int("SELECT count(*) FROM effect").await == all {
                child.close_stdin();
                child.line_containing("ended in peace", LIMIT);
                return Outcome { rig, dead, deaths };
            }
            assert!(Instant::now() < deadline, "neither dead nor done after {deaths} deaths: {child:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Outcome { rig, dead, deaths }
}

async fn the_killer_alone_is_given_up<DB: Bus>(database: TestDatabase<DB>, how: &str) {
    let Outcome { rig, dead, deaths } = lives(database, how, DEATHS, DEATHS + 5).await;
    assert_eq!(deaths, DEATHS);
    let copies = rig.broker.read_all(&dead, LIMIT).await;
    assert_eq!(copies.len(), 1, "the others are innocent: {copies:?}");
    let mut copy = Record::new("dead", 0, 0);
    for (name, value) in &copies[0].headers {
        copy = copy.with_header(name.clone(), value.clone());
    }
    let origin = Origin::of(&copy).expect("it is a copy");
    assert_eq!((origin.offset, origin.cause), (1, Cause::Poison));
    assert!(origin.error.contains(&format!("died {DEATHS} times")), "{}", origin.error);
    let twice = "SELECT count(*) FROM (SELECT record_key, number FROM effect GROUP BY record_key, number HAVING count(*) > 1) AS t";
    assert_eq!(rig.database.int(twice).await, 0, "and each has its effect once");
    assert_eq!(rig.database.int("SELECT count(*) FROM leastlock_partition_suspect").await, 0);
    assert_eq!(rig.database.int("SELECT count(*) FROM effect WHERE record_key = '85123A'").await, 2);
}

async fn double_a_record_that_kills_does_so_for_ever<DB: Bus>(database: TestDatabase<DB>) {
    let Outcome { rig, dead, deaths } = lives(database, SINGLY, 0, DEATHS + 2).await;
    assert_eq!(deaths, DEATHS + 2);
    assert!(rig.broker.read_all(&dead, LIMIT).await.is_empty());
}

macro_rules! on {
    ($feature:literal, $engine:ident, $type:ty) => {
        #[cfg(feature = $feature)]
        mod $engine {
            use leastlock_testkit::TestDatabase;

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn a_record_that_kills_is_given_up_and_nothing_else_is() {
                super::the_killer_alone_is_given_up(TestDatabase::<$type>::create().await, super::SINGLY).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn a_record_that_kills_its_batch_is_given_up_and_nothing_else_is() {
                super::the_killer_alone_is_given_up(TestDatabase::<$type>::create().await, super::IN_BATCHES).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn double_a_record_that_kills_does_so_for_ever() {
                super::double_a_record_that_kills_does_so_for_ever(TestDatabase::<$type>::create().await).await;
            }
        }
    };
}

on!("sqlite", sqlite, sqlx::Sqlite);
on!("postgres", postgres, sqlx::Postgres);
on!("mysql", mysql, sqlx::MySql);

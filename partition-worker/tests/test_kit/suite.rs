//! What the kit promises, as functions over the engine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use leastlock_core::Engine;
use leastlock_partition_worker::dead_letter::Origin;
use leastlock_partition_worker::effect::InDatabase;
use leastlock_partition_worker::testing::{TestError, TestKit};
use leastlock_partition_worker::{Effect, Failure, MIGRATIONS, OnFailure, Process, Record, WorkerSql};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;

#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::doubles::WritesBeside;
use crate::doubles::{CountsOutside, Remembers, Right, notes};

const KEYS: [&str; 5] = ["85123A", "71053", "84406B", "84029G", "22752"];
const SEEDS: std::ops::RangeInclusive<u64> = 1..=8;

fn kit<DB: WorkerSql>() -> TestKit<InDatabase<DB>> {
    let kit = TestKit::in_database("moves", 3);
    for number in 1..=8 {
        for key in KEYS {
            kit.record(key, number.to_string());
        }
    }
    kit
}

fn expected() -> BTreeMap<String, Vec<i64>> {
    KEYS.map(|key| (key.to_owned(), (1..=8).collect())).into()
}

async fn prepared<DB: TestEngine + WorkerSql>(database: TestDatabase<DB>) -> TestDatabase<DB> {
    let database = database.with(&MIGRATIONS).await;
    let create = match DB::ENGINE {
        Engine::Sqlite => "CREATE TABLE note (id INTEGER PRIMARY KEY AUTOINCREMENT, record_key TEXT, number BIGINT)",
        Engine::MySql => "CREATE TABLE note (id BIGINT AUTO_INCREMENT PRIMARY KEY, record_key TEXT, number BIGINT)",
        _ => "CREATE TABLE note (id BIGINT GENERATED ALWAYS AS IDENTITY, record_key TEXT, number BIGINT)",
    };
    database.execute(create).await;
    database
}

/// A database for each round, kept for as long as this is.
#[derive(Default)]
struct Databases<DB: TestEngine>(RefCell<Vec<TestDatabase<DB>>>);

impl<DB: TestEngine + WorkerSql> Databases<DB> {
    async fn fresh(&self) -> Pool<DB> {
        let database = prepared(TestDatabase::create().await).await;
        let pool = database.pool.clone();
        self.0.borrow_mut().push(database);
        pool
    }

    fn new() -> Self {
        Self(RefCell::default())
    }
}

pub(crate) async fn records_are_handled_once_in_the_order_of_their_keys<DB: TestEngine + WorkerSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let summary = kit().run(Effect::in_database(&database.pool), Right).await.expect("a run");
    assert_eq!((summary.processed(), summary.already_done()), (40, 0), "{summary:?}");
    assert_eq!(notes(&database.pool).await, expected());
    assert!(summary.partitions.len() > 1, "the keys are spread: {summary:?}");
}

pub(crate) async fn a_second_run_goes_on_where_the_first_has_ended<DB: TestEngine + WorkerSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let kit = kit();
    kit.run(Effect::in_database(&database.pool), Right).await.expect("a run");
    kit.record(KEYS[0], "9");
    let summary = kit.run_batches(Effect::in_database(&database.pool), Right).await.expect("another");
    assert_eq!((summary.processed(), summary.already_done()), (1, 0), "{summary:?}");
    assert_eq!(notes(&database.pool).await[KEYS[0]], (1..=9).collect::<Vec<_>>());
}

pub(crate) async fn a_failing_record_goes_to_the_dead_letter_topic<DB: TestEngine + WorkerSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let kit = kit().configure(|worker| worker.on_failure(OnFailure::dead_letter("dead")));
    let (partition, offset) = kit.record(KEYS[1], "many");
    kit.record(KEYS[1], "9");
    let summary = kit.run(Effect::in_database(&database.pool), Right).await.expect("a run");
    assert_eq!(summary.processed(), 41, "{summary:?}");
    assert_eq!(notes(&database.pool).await[KEYS[1]], (1..=9).collect::<Vec<_>>());
    let dead = kit.records("dead");
    let origins: Vec<_> = dead.iter().filter_map(Origin::of).map(|of| (of.source.partition(), of.offset)).collect();
    assert_eq!((dead.len(), origins), (1, vec![(partition, offset)]));
}

pub(crate) async fn a_failing_key_is_parked_with_what_follows<DB: TestEngine + WorkerSql>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let kit = kit().configure(|worker| worker.on_failure(OnFailure::park_key("parked")));
    kit.record(KEYS[1], "many");
    kit.record(KEYS[1], "9");
    kit.record(KEYS[2], "9");
    let summary = kit.run(Effect::in_database(&database.pool), Right).await.expect("a run");
    assert_eq!(summary.processed(), 41, "{summary:?}");
    let notes = notes(&database.pool).await;
    assert_eq!((notes[KEYS[1]].len(), notes[KEYS[2]].len()), (8, 9));
    let parked = kit.records("parked");
    assert_eq!(parked.iter().filter_map(Record::value).collect::<Vec<_>>(), [&b"many"[..], b"9"]);
}

pub(crate) async fn a_handler_that_writes_through_its_transaction_survives_torture<DB: TestEngine + WorkerSql>(
    _: TestDatabase<DB>,
) {
    let databases = Databases::<DB>::new();
    let kit = kit();
    let survived = kit.torture(SEEDS, async || databases.fresh().await, |_| Right, async |pool| notes(pool).await);
    let survived = survived.await.expect("it is right");
    assert_eq!(survived.rounds.len(), 8);
    assert!(survived.rounds.iter().map(|round| round.faults.len()).sum::<usize>() > 8, "{survived:?}");
}

pub(crate) async fn a_batch_handler_that_writes_through_its_transaction_survives_torture<DB: TestEngine + WorkerSql>(
    _: TestDatabase<DB>,
) {
    let databases = Databases::<DB>::new();
    let kit = kit().configure(|worker| worker.max_batch(4));
    let survived =
        kit.torture_batches(SEEDS, async || databases.fresh().await, |_| Right, async |pool| notes(pool).await);
    survived.await.expect("it is right");
}

pub(crate) async fn double_an_effect_outside_of_the_transaction_is_caught<DB: TestEngine + WorkerSql>(
    _: TestDatabase<DB>,
) {
    let databases = Databases::<DB>::new();
    let outside = Mutex::new(Arc::new(AtomicI64::new(0)));
    let fresh = async || {
        *outside.lock().expect("no panic under the lock") = Arc::default();
        databases.fresh().await
    };
    let handler = |_: &Pool<DB>| CountsOutside(Arc::clone(&outside.lock().expect("no panic under the lock")));
    let end = async |_: &Pool<DB>| outside.lock().expect("no panic under the lock").load(Ordering::SeqCst);
    let tortured = kit().torture(1..=40, fresh, handler, end).await;
    assert!(matches!(tortured, Err(TestError::Differs { .. })), "{tortured:?}");
}

pub(crate) async fn double_what_is_kept_in_memory_alone_is_caught<DB: TestEngine + WorkerSql>(_: TestDatabase<DB>) {
    let databases = Databases::<DB>::new();
    let handler = |_: &Pool<DB>| Remembers::default();
    let kit = kit();
    let tortured = kit.torture(1..=40, async || databases.fresh().await, handler, async |pool| notes(pool).await);
    let tortured = tortured.await;
    assert!(matches!(tortured, Err(TestError::Differs { .. })), "{tortured:?}");
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) async fn double_an_effect_on_another_connection_is_caught<DB: TestEngine + WorkerSql>(_: TestDatabase<DB>) {
    let databases = Databases::<DB>::new();
    let handler = |pool: &Pool<DB>| WritesBeside(pool.clone());
    let kit = kit();
    let tortured = kit.torture(1..=40, async || databases.fresh().await, handler, async |pool| notes(pool).await);
    let tortured = tortured.await;
    assert!(matches!(tortured, Err(TestError::Differs { .. })), "{tortured:?}");
}

/// Each key's highest number: it bears to be told twice.
type Highest = Arc<Mutex<BTreeMap<Vec<u8>, i64>>>;

struct Raises(Highest);

impl Process for Raises {
    async fn process(&self, record: &Record) -> Result<(), Failure> {
        let number = record.json::<i64>()?;
        let mut highest = self.0.lock().expect("no panic under the lock");
        let of_key = highest.entry(record.key().unwrap_or_default().to_vec()).or_insert(number);
        *of_key = number.max(*of_key);
        Ok(())
    }
}

pub(crate) async fn an_idempotent_process_survives_torture() {
    let kit = TestKit::at_least_once("moves", 3);
    for number in 1..=8 {
        for key in KEYS {
            kit.record(key, number.to_string());
        }
    }
    let fresh = async || Highest::default();
    let end = async |highest: &Highest| highest.lock().expect("no panic under the lock").clone();
    kit.torture(1..=20, fresh, |highest| Raises(Arc::clone(highest)), end).await.expect("it bears to be told twice");
}

pub(crate) async fn a_record_has_the_place_that_it_names() {
    let kit = TestKit::at_least_once("moves", 2);
    kit.place(Record::new("moves", 1, 7).with_value("1")).expect("the log is empty");
    kit.place(Record::new("moves", 1, 9).with_value("2")).expect("a hole");
    let taken = kit.place(Record::new("moves", 1, 9));
    assert!(matches!(taken, Err(TestError::Place { offset: 9, .. })), "{taken:?}");
    let highest = Highest::default();
    let summary = kit.run(Raises(Arc::clone(&highest))).await.expect("a run");
    assert_eq!(summary.processed(), 2);
    assert_eq!(summary.partitions.values().map(|of| of.watermark).max(), Some(Some(10)), "{summary:?}");
    assert_eq!(*highest.lock().expect("no panic under the lock"), BTreeMap::from([(Vec::new(), 2)]));
}

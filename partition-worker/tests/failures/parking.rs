//! Parked keys, end to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use leastlock_partition_worker::dead_letter::Origin;
use leastlock_partition_worker::on_failure::Cause;
use leastlock_partition_worker::parked::{Asked, Discard, ParkedKey};
use leastlock_partition_worker::{BatchFailure, BatchHandler, Failure, OnFailure, Parked, Record, WorkerSql};
use leastlock_testkit::TestDatabase;
use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use sqlx::Transaction;
use tokio_util::sync::CancellationToken;

use crate::bench::{BAD, GOOD, append, consumed, failing_at};
use crate::rig::{Bus, LIMIT, Rig, Running, Told, apply, start};

const ALL: [&str; 4] = [BAD, GOOD[0], GOOD[1], GOOD[2]];

/// A rig in which record 2 of the bad key fails for good, until it is mended.
struct Parking<DB: Bus> {
    rig: Rig<DB>,
    copies: String,
    mended: Arc<AtomicBool>,
}

impl<DB: Bus> Parking<DB> {
    async fn new(database: TestDatabase<DB>) -> Self {
        let rig = Rig::new(database, 2).await;
        let copies = rig.broker.topic(3).await;
        Self { rig, copies, mended: Arc::default() }
    }

    fn start(&self, owner: &'static str) -> Running {
        self.start_with(owner, OnFailure::park_key(&self.copies))
    }

    fn start_with(&self, owner: &'static str, policy: OnFailure) -> Running {
        start(self.rig.builder().on_failure(policy), failing_at(owner, self.wrong()))
    }

    /// The same in batches, whose handler does not say which record is wrong.
    fn start_batches(&self) -> Running {
        let policy = OnFailure::park_key(&self.copies);
        let worker = self.rig.builder().on_failure(policy).max_batch(10).build().expect("a worker");
        let shutdown = CancellationToken::new();
        let handler = Batches { wrong: Box::new(self.wrong()) };
        Running { task: tokio::spawn(worker.run_batches(handler, shutdown.clone())), shutdown }
    }

    fn wrong(&self) -> impl Fn(&Record) -> bool + Send + Sync + use<DB> {
        let mended = Arc::clone(&self.mended);
        move |record| {
            let is_it = record.key() == Some(BAD.as_bytes()) && record.value() == Some(b"2");
            is_it && !mended.load(Ordering::SeqCst)
        }
    }

    fn parked(&self) -> Parked<DB> {
        Parked::new(&self.rig.database.pool, self.rig.group.as_str())
    }

    /// Waits until the bad key is parked with so many records.
    async fn records(&self, count: i64) -> ParkedKey {
        self.rig
            .until("SELECT count(*) FROM leastlock_partition_parked_record", |found| found == count, "parking")
            .await;
        let found = self.parked().find(&self.rig.topic, BAD.as_bytes()).await.expect("a list");
        found.into_iter().next().expect("the key is parked")
    }

    async fn release(&self, key: &ParkedKey) {
        self.mended.store(true, Ordering::SeqCst);
        let asked = self.parked().release(&key.place, "ann", "the account is there now").await.expect("an answer");
        assert_eq!(asked, Asked::Done);
    }

    async fn free(&self) {
        self.rig.until("SELECT count(*) FROM leastlock_partition_parked", |found| found == 0, "free key").await;
    }
}

struct Batches {
    wrong: Box<dyn Fn(&Record) -> bool + Send + Sync>,
}

impl<DB: WorkerSql> BatchHandler<DB> for Batches {
    async fn handle(&self, batch: &[Record], tx: &mut Transaction<'_, DB>) -> Result<(), BatchFailure> {
        for record in batch {
            apply::<DB>(tx, record, "batches").await?;
        }
        if batch.iter().any(|record| (self.wrong)(record)) {
            return Err(Failure::permanent("no such account").into());
        }
        Ok(())
    }
}

/// Answers the effects of the bad key in the order in which they took place.
async fn numbers_of_the_bad_key<DB: Bus>(rig: &Rig<DB>) -> Vec<i64> {
    let sql = "SELECT number FROM effect WHERE record_key = '85123A' ORDER BY id";
    let mut connection = rig.database.pool.acquire().await.expect("a connection");
    let rows = leastlock_core::Statement::new(sql).fetch_all::<DB>(&mut connection).await.expect("the effects");
    rows.iter().map(|row| row.int(0).expect("a number")).collect()
}

pub(crate) async fn p13_a_parked_key_is_followed_in_order_and_others_go_on<DB: Bus>(database: TestDatabase<DB>) {
    let parking = Parking::new(database).await;
    parked_and_released(&parking, || parking.start("first")).await;
}

pub(crate) async fn p13_a_parked_key_is_followed_in_order_by_batches_too<DB: Bus>(database: TestDatabase<DB>) {
    let parking = Parking::new(database).await;
    parked_and_released(&parking, || parking.start_batches()).await;
}

async fn parked_and_released<DB: Bus>(parking: &Parking<DB>, start: impl FnOnce() -> Running) {
    let rig = &parking.rig;
    rig.produce(&ALL, 1..=5).await;
    let worker = start();
    rig.effects(1 + 3 * 5).await;
    let key = parking.records(4).await;
    assert_eq!((key.cause, key.records, key.under_way), (Cause::Permanent, 4, false));
    assert_eq!(numbers_of_the_bad_key(rig).await, [1]);
    rig.produce(&ALL, 6..=7).await;
    rig.effects(1 + 3 * 7).await;
    parking.records(6).await;

    parking.release(&key).await;
    rig.produce(&ALL, 8..=10).await;
    rig.effects(4 * 10).await;
    parking.free().await;
    rig.produce(&ALL, 11..=12).await;
    rig.effects(4 * 12).await;
    let summary = worker.stop().await;
    rig.assert_exactly_once(&ALL, 12).await;
    let sum = |count: fn(&leastlock_partition_worker::PartitionSummary) -> u64| -> u64 {
        summary.partitions.values().map(count).sum()
    };
    assert!(sum(|partition| partition.parked) >= 6, "{summary:?}");
    assert_eq!(sum(|partition| partition.parked), sum(|partition| partition.released), "{summary:?}");
    let copies = consumed(rig, &parking.copies, 6).await;
    let causes: Vec<_> = copies.iter().filter_map(Origin::of).map(|origin| origin.cause).collect();
    assert_eq!(causes[..2], [Cause::Permanent, Cause::Follows], "{causes:?}");
    assert!(copies.iter().all(|copy| copy.partition() == copies[0].partition()), "one key, one partition");
}

pub(crate) async fn p13_double_a_dead_letter_lets_later_records_overtake<DB: Bus>(database: TestDatabase<DB>) {
    let parking = Parking::new(database).await;
    let rig = &parking.rig;
    rig.produce(&ALL, 1..=5).await;
    let worker = parking.start_with("first", OnFailure::dead_letter(&parking.copies));
    rig.effects(4 + 3 * 5).await;
    worker.stop().await;
    assert_eq!(numbers_of_the_bad_key(rig).await, [1, 3, 4, 5], "3 has overtaken 2");
}

/// The handler of a released record brings its worker down: the next one goes on there, and nothing is done twice.
pub(crate) async fn p13_a_release_goes_on_where_a_crash_has_ended_it<DB: Bus>(database: TestDatabase<DB>) {
    let parking = Parking::new(database).await;
    let rig = &parking.rig;
    rig.produce(&ALL, 1..=9).await;
    let worker = parking.start("first");
    rig.effects(1 + 3 * 9).await;
    let key = parking.records(8).await;
    worker.stop().await;

    let hangs = Told::first("second", |record| {
        let hangs = record.key() == Some(BAD.as_bytes()) && record.value() == Some(b"6");
        Box::pin(async move { if hangs { std::future::pending().await } else { Ok(()) } })
    });
    let second = start(rig.builder().on_failure(OnFailure::park_key(&parking.copies)), hangs);
    parking.release(&key).await;
    // Records 2 to 5 have left; 6 is open.
    parking.rig.until("SELECT count(*) FROM effect WHERE record_key = '85123A'", |found| found == 5, "release").await;
    second.crash().await;
    let third = parking.start("third");
    rig.produce(&ALL, 10..=10).await;
    rig.effects(4 * 10).await;
    parking.free().await;
    third.stop().await;
    rig.assert_exactly_once(&ALL, 10).await;
}

pub(crate) async fn p13_a_discarded_key_flows_again<DB: Bus>(database: TestDatabase<DB>) {
    let parking = Parking::new(database).await;
    let rig = &parking.rig;
    rig.produce(&ALL, 1..=3).await;
    let worker = parking.start("first");
    rig.effects(1 + 3 * 3).await;
    let key = parking.records(2).await;
    let asked = parked_discard(&parking, &key).await;
    assert_eq!(asked, Asked::Done);
    rig.produce(&ALL, 4..=5).await;
    rig.effects(3 + 3 * 5).await;
    worker.stop().await;
    assert_eq!(numbers_of_the_bad_key(rig).await, [1, 4, 5]);
}

async fn parked_discard<DB: Bus>(parking: &Parking<DB>, key: &ParkedKey) -> Asked {
    parking.parked().discard(&key.place, Discard::All, "ann", "test records").await.expect("an answer")
}

pub(crate) async fn a_key_that_fails_again_is_parked_again<DB: Bus>(database: TestDatabase<DB>) {
    let parking = Parking::new(database).await;
    let rig = &parking.rig;
    rig.produce(&ALL, 1..=3).await;
    let worker = parking.start("first");
    rig.effects(1 + 3 * 3).await;
    let key = parking.records(2).await;
    // Released without having been mended.
    let asked = parking.parked().release(&key.place, "ann", "perhaps it works now").await.expect("an answer");
    assert_eq!(asked, Asked::Done);
    let parked_again = "SELECT count(*) FROM leastlock_partition_parked_record AS r \
                          JOIN leastlock_partition_parked AS q ON q.queue = r.queue AND q.state = 'parked' WHERE r.attempts = 2";
    rig.until(parked_again, |found| found == 1, "key that is parked again").await;
    let key = parking.records(2).await;
    parking.release(&key).await;
    rig.effects(4 * 3).await;
    parking.free().await;
    worker.stop().await;
    rig.assert_exactly_once(&ALL, 3).await;
}

/// Each record of the key that is handled makes another one of the key, for as long as the key is not free.
pub(crate) async fn p13_a_released_key_whose_records_come_as_fast_as_they_leave_becomes_free<DB: Bus>(
    database: TestDatabase<DB>,
) {
    let rig = Rig::new(database, 1).await;
    let copies = rig.broker.topic(1).await;
    // Whether it goes on, and the newest number.
    let (mended, newest): (Arc<AtomicBool>, _) = (Arc::default(), Arc::new(Mutex::new((true, 200_i64))));
    rig.produce(&[BAD], 1..=200).await;
    let (is_mended, made, topic) = (Arc::clone(&mended), Arc::clone(&newest), rig.topic.clone());
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", rig.broker.bootstrap()).create().expect("a producer");
    let handler = Told::first("busy", move |_| {
        let (topic, producer) = (topic.clone(), producer.clone());
        let next = is_mended.load(Ordering::SeqCst).then(|| {
            let (goes_on, newest) = &mut *made.lock().expect("no panic");
            *newest += i64::from(*goes_on);
            goes_on.then_some(newest.to_string())
        });
        Box::pin(async move {
            let next = next.ok_or_else(|| Failure::permanent("no such account"))?;
            if let Some(value) = next {
                let record = FutureRecord::to(&topic).key(BAD).payload(&value);
                producer.send(record, LIMIT).await.map_err(|(error, _)| Failure::retry(error))?;
            }
            Ok(())
        })
    });
    let worker = start(rig.builder().on_failure(OnFailure::park_key(&copies)), handler);
    rig.until("SELECT count(*) FROM leastlock_partition_parked_record", |found| found == 200, "parking").await;
    let parked = Parked::new(&rig.database.pool, rig.group.as_str());
    let key = parked.find(&rig.topic, BAD.as_bytes()).await.expect("a list").remove(0);
    mended.store(true, Ordering::SeqCst);
    assert_eq!(parked.release(&key.place, "ann", "the account is there now").await.expect("an answer"), Asked::Done);
    rig.until("SELECT count(*) FROM leastlock_partition_parked", |found| found == 0, "free key").await;
    let upto = {
        let (goes_on, newest) = &mut *newest.lock().expect("no panic");
        *goes_on = false;
        *newest
    };
    rig.effects(upto).await;
    worker.stop().await;
    let numbers = numbers_of_the_bad_key(&rig).await;
    assert_eq!(numbers, (1..=upto).collect::<Vec<_>>(), "in order, and each once");
}

pub(crate) async fn a_record_without_a_key_is_parked_alone<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    let parking_topic = rig.broker.topic(1).await;
    for number in 1..=3 {
        append(&rig.broker, &rig.topic, &Record::new("", 0, 0).with_value(number.to_string())).await;
    }
    let mended: Arc<AtomicBool> = Arc::default();
    let is_mended = Arc::clone(&mended);
    let handler = Told::first("first", move |record| {
        let wrong = record.offset() == 1 && !is_mended.load(Ordering::SeqCst);
        Box::pin(async move { if wrong { Err(Failure::permanent("no such account")) } else { Ok(()) } })
    });
    let worker = start(rig.builder().on_failure(OnFailure::park_key(&parking_topic)), handler);
    rig.effects(2).await;
    rig.until("SELECT count(*) FROM leastlock_partition_parked", |found| found == 1, "parking").await;
    let parked = Parked::new(&rig.database.pool, rig.group.as_str());
    let listed = parked.list(Some(&rig.topic), None, 10).await.expect("a list");
    assert_eq!((listed[0].key.as_deref(), listed[0].blocks, listed[0].records), (None, false, 1));
    mended.store(true, Ordering::SeqCst);
    let asked = parked.release(&listed[0].place, "ann", "the account is there now").await.expect("an answer");
    assert_eq!(asked, Asked::Done);
    rig.effects(3).await;
    rig.until("SELECT count(*) FROM leastlock_partition_parked", |found| found == 0, "free record").await;
    worker.stop().await;
    assert_eq!(rig.broker.read_all(&parking_topic, LIMIT).await.len(), 1);
}

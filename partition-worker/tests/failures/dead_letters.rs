//! Dead letters: what the copies are, and when a record counts as finished.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use leastlock_partition_worker::dead_letter::Origin;
use leastlock_partition_worker::on_failure::Cause;
use leastlock_partition_worker::{Failure, OnFailure, Record};
use leastlock_testkit::TestDatabase;
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, PurgeConfig, ThreadedProducer};

use crate::bench::{BAD, Closed, GOOD, append, consumed, failing_at, is_bad, on_the_mock_cluster};
use crate::rig::{Bus, LIMIT, Rig, Told, start, until};

/// Where the one partition goes on.
const NEXT: &str = "SELECT coalesce(max(next_offset), 0) FROM leastlock_partition";

/// A record of everything, one of nothing, and one of empty things.
fn all_kinds() -> [Record; 3] {
    let whole = Record::new("", 0, 0)
        .with_key(BAD)
        .with_value("not a number")
        .with_header("trace", Some(b"1".into()))
        .with_header("other", None)
        .with_header("trace", Some(b"2".into()))
        .with_timestamp_ms(1_700_000_000_123);
    let nothing = Record::new("", 0, 1).with_timestamp_ms(1_700_000_000_456);
    let empty = Record::new("", 0, 2).with_key("").with_value("").with_timestamp_ms(1_700_000_000_789);
    [whole, nothing, empty]
}

/// Answers the copies of records of all kinds that failed for good.
async fn copies<DB: Bus>(database: TestDatabase<DB>, policy: impl Fn(&str) -> OnFailure) -> (Rig<DB>, String, i64) {
    let rig = Rig::new(database, 1).await;
    let dead = rig.broker.topic(1).await;
    for record in all_kinds() {
        append(&rig.broker, &rig.topic, &record).await;
    }
    rig.produce(&GOOD, 1..=1).await;
    let handler = Told::first("first", |record| {
        let failure = record.json::<i64>().map(drop).map_err(Failure::from);
        Box::pin(async { failure })
    });
    let worker = start(rig.builder().on_failure(policy(&dead)), handler);
    rig.effects(3).await;
    rig.until(NEXT, |next| next == 6, "fold of all").await;
    let summary = worker.stop().await;
    let partition = summary.partitions.values().next().expect("one partition");
    assert_eq!(partition.dead_lettered + partition.skipped, 3, "{summary:?}");
    let found = rig.broker.read_all(&dead, LIMIT).await.len();
    (rig, dead, i64::try_from(found).expect("small"))
}

pub(crate) async fn a_copy_is_the_record_and_tells_where_it_came_from<DB: Bus>(database: TestDatabase<DB>) {
    let (rig, dead, found) = copies(database, |dead| OnFailure::dead_letter(dead)).await;
    assert_eq!(found, 3);
    let copies = consumed(&rig, &dead, 3).await;
    for original in all_kinds() {
        let origin = |copy: &&Record| Origin::of(copy).is_some_and(|origin| origin.offset == original.offset());
        let copy = copies.iter().find(origin).unwrap_or_else(|| panic!("no copy of {original:?} in {copies:?}"));
        assert_eq!((copy.key(), copy.value()), (original.key(), original.value()));
        assert_eq!(copy.timestamp_ms(), original.timestamp_ms());
        assert_eq!(&copy.headers()[..original.headers().len()], original.headers());
        let origin = Origin::of(copy).expect("it is a copy");
        assert_eq!((origin.source.topic(), origin.source.partition()), (&*rig.topic, 0));
        assert_eq!((origin.timestamp_ms, origin.attempts), (original.timestamp_ms(), 1));
        assert_eq!((&*origin.group, origin.cause), (&*rig.group, Cause::Permanent));
        assert!(origin.error.contains(&format!("at offset {}", original.offset())), "{}", origin.error);
    }
}

pub(crate) async fn double_a_skip_leaves_no_copy<DB: Bus>(database: TestDatabase<DB>) {
    let (_rig, _dead, found) = copies(database, |_| OnFailure::Skip).await;
    assert_eq!(found, 0);
}

/// How a failed record gets to its dead-letter topic.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Policy,
    /// The handler hands it to a producer and goes on.
    NotWaitedFor,
}

/// The dead-letter topic takes nothing for a while, in which the worker crashes. Answers how many copies there are in the end.
async fn copies_after_a_crash<DB: Bus>(database: TestDatabase<DB>, way: Way) -> usize {
    let rig = on_the_mock_cluster(Rig::new(database, 1).await).await;
    let dead = rig.broker.topic(1).await;
    rig.produce(&[BAD, GOOD[0]], 1..=1).await;
    let closed = Closed::new(&rig.broker);
    let tried = Arc::new(AtomicBool::new(false));
    let (notes, dead_letters) = (Arc::clone(&tried), dead.clone());
    let producer: ThreadedProducer<DefaultProducerContext> =
        ClientConfig::new().set("bootstrap.servers", rig.broker.bootstrap()).create().expect("a producer");
    let hands_over = producer.clone();
    let handler = Told::first("first", move |record| {
        let failed = is_bad(record);
        notes.fetch_or(failed, Ordering::SeqCst);
        if failed && way == Way::NotWaitedFor {
            let copy = BaseRecord::to(&dead_letters).key(BAD).payload("1");
            hands_over.send(copy).map_err(|(error, _)| error).expect("there is room in the producer");
            return Box::pin(async { Ok(()) });
        }
        Box::pin(async move { if failed { Err(Failure::permanent("no such account")) } else { Ok(()) } })
    });
    let first = start(rig.builder().on_failure(OnFailure::dead_letter(&dead)), handler);
    until("try", || tried.load(Ordering::SeqCst)).await;
    let others = if way == Way::Policy { 1 } else { 2 };
    rig.effects(others).await;
    if way == Way::Policy {
        // Time in which a record that is finished too early would be; no more is asked of it.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let finished = "SELECT count(*) FROM leastlock_partition_done WHERE record_offset = 0";
        assert_eq!(rig.database.int(finished).await, 0, "the broker has not acknowledged anything");
        assert_eq!(rig.database.int(NEXT).await, 0);
    }
    first.crash().await;
    producer.purge(PurgeConfig::default().queue().inflight());
    closed.open();
    let second = start(rig.builder().on_failure(OnFailure::dead_letter(&dead)), failing_at("second", is_bad));
    rig.until(NEXT, |next| next == 2, "fold of all").await;
    second.stop().await;
    // At least once: what the first had under way may have arrived as well.
    rig.broker.read_all(&dead, LIMIT).await.len()
}

pub(crate) async fn a_failed_record_is_not_finished_before_its_copy_is_acknowledged<DB: Bus>(
    database: TestDatabase<DB>,
) {
    assert!(copies_after_a_crash(database, Way::Policy).await >= 1);
}

pub(crate) async fn double_a_copy_that_is_not_waited_for_is_lost<DB: Bus>(database: TestDatabase<DB>) {
    assert_eq!(copies_after_a_crash(database, Way::NotWaitedFor).await, 0);
}

pub(crate) async fn only_what_is_wrong_in_itself_goes_where_permanent_failures_go<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    let (dead, tired) = (rig.broker.topic(1).await, rig.broker.topic(1).await);
    rig.produce(&[BAD, GOOD[0], GOOD[1]], 1..=1).await;
    let handler = Told::first("first", |record| {
        let result = match record.offset() {
            0 => Err(Failure::permanent("wrong")),
            1 => Err(Failure::retry("an outage")),
            _ => Ok(()),
        };
        Box::pin(async { result })
    });
    let builder = rig.builder().max_attempts(3).on_failure(OnFailure::dead_letter(&tired));
    let worker = start(builder.on_permanent_failure(OnFailure::dead_letter(&dead)), handler);
    rig.until(NEXT, |next| next == 3, "fold of all").await;
    worker.stop().await;
    for (topic, offset, attempts, cause) in [(&dead, 0, 1, Cause::Permanent), (&tired, 1, 3, Cause::Exhausted)] {
        let copies = consumed(&rig, topic, 1).await;
        let origins: Vec<_> = copies.iter().filter_map(Origin::of).collect();
        assert_eq!(origins.len(), 1, "{copies:?}");
        assert_eq!((origins[0].offset, origins[0].attempts, origins[0].cause), (offset, attempts, cause));
    }
}

/// A handler fails again and again; another worker takes its partition. Answers how often the first tries once it has lost it.
async fn tries_after_the_ownership<DB: Bus>(database: TestDatabase<DB>, inside: bool) -> usize {
    let mut rig = Rig::new(database, 2).await;
    rig.settings.push(("partition.assignment.strategy", "range".to_owned()));
    for partition in 0..2 {
        rig.broker.produce_to(&rig.topic, partition, BAD, "1").await;
    }
    let (tries, counting) = (Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]), Arc::new(AtomicBool::new(true)));
    let (counts, goes_on) = (Arc::clone(&tries), Arc::clone(&counting));
    let count =
        move |partition: i32| counts[usize::try_from(partition).expect("0 or 1")].fetch_add(1, Ordering::SeqCst);
    let count = Arc::new(count);
    let handler = Told::first("first", move |record| {
        let (partition, count, goes_on) = (record.partition(), Arc::clone(&count), Arc::clone(&goes_on));
        count(partition);
        Box::pin(async move {
            while inside && goes_on.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
                count(partition);
            }
            Err(Failure::retry("not yet"))
        })
    });
    let first = start(rig.builder().max_attempts(u32::MAX).concurrency(1 + usize::from(inside)), handler);
    until("tries", || tries[0].load(Ordering::SeqCst) > 2 && tries[1].load(Ordering::SeqCst) > 2).await;
    let second = start(rig.builder(), Told::plain("second"));
    // The second claims its partition at the gate once the first has given it up.
    let owners = "SELECT count(DISTINCT owner) FROM leastlock_partition_gate";
    rig.until(owners, |owners| owners == 2, "partition for each").await;
    // What was in the middle of an attempt then may end it.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = [tries[0].load(Ordering::SeqCst), tries[1].load(Ordering::SeqCst)];
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after = [tries[0].load(Ordering::SeqCst), tries[1].load(Ordering::SeqCst)];
    counting.store(false, Ordering::SeqCst);
    // Of two partitions the first still has one, at which it goes on.
    let lost = (0..2).map(|partition| after[partition] - before[partition]).min().expect("two");
    first.crash().await;
    second.crash().await;
    lost
}

pub(crate) async fn a_retry_ends_with_the_ownership<DB: Bus>(database: TestDatabase<DB>) {
    assert_eq!(tries_after_the_ownership(database, false).await, 0);
}

/// (On SQLite the handler would hold up the other worker's claim as well.)
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) async fn double_a_retry_inside_the_handler_outlives_the_ownership<DB: Bus>(database: TestDatabase<DB>) {
    assert!(tries_after_the_ownership(database, true).await > 0);
}

/// The topic takes less than the record: nothing is lost, and nothing else suffers.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) async fn a_record_that_its_topic_does_not_take_stops_the_worker_and_is_not_lost<DB: Bus>(
    database: TestDatabase<DB>,
) {
    use leastlock_partition_worker::Error;

    let rig = Rig::new(database, 1).await;
    let dead = rig.broker.topic(1).await;
    rig.broker.set(&dead, "max.message.bytes", "2000").await;
    append(&rig.broker, &rig.topic, &Record::new("", 0, 0).with_key(BAD).with_value("x".repeat(1_990))).await;
    append(&rig.broker, &rig.topic, &Record::new("", 0, 1).with_key(GOOD[0]).with_value("x")).await;
    let policy = OnFailure::dead_letter(&dead);
    let worker = start(rig.builder().on_failure(policy.clone()), failing_at("first", |_| true));
    let error = worker.ended().await.expect_err("the topic does not take it");
    let Error::NotTaken { offset: 0, topic, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*topic, dead);
    assert_eq!(rig.database.int(NEXT).await, 0);

    rig.broker.set(&dead, "max.message.bytes", "1000000").await;
    let worker = start(rig.builder().on_failure(policy), failing_at("second", |_| true));
    rig.until(NEXT, |next| next == 2, "fold of all").await;
    worker.stop().await;
    let copies = rig.broker.read_all(&dead, LIMIT).await;
    let large = copies.iter().filter(|copy| copy.value.as_ref().is_some_and(|value| value.len() == 1_990)).count();
    assert_eq!(large, 1, "{} copies", copies.len());
}

//! What a worker without a database promises, as functions over the broker.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use leastlock_partition_worker::effect::AtLeastOnce;
use leastlock_partition_worker::{Builder, Failure, Limits, NullKeys, OnFailure, Ordering as Order, Record};
use leastlock_testkit::broker::Broker;
use tokio::sync::Barrier;

use crate::rig::{LIMIT, Log, Rig, start};

const KEYS: [&str; 7] = ["85123A", "71053", "84406B", "84029G", "84029E", "22752", "21730"];

pub(crate) async fn every_record_is_processed_once_in_the_order_of_its_key(broker: Broker) {
    let rig = Rig::new(broker, 3).await;
    rig.produce(&KEYS, 1..=20).await;
    let log = Log::default();
    let first = start(rig.builder(), log.plain());
    log.until(140).await;
    let summary = first.stop().await;
    assert_eq!((summary.processed(), summary.already_done(), summary.drained), (140, 0, true), "{summary:?}");
    let committed = rig.committed().await;
    assert_eq!(committed.iter().map(|commit| commit.offset).sum::<i64>(), 140, "{committed:?}");
    assert!(committed.iter().all(|commit| commit.metadata.is_empty()), "{committed:?}");

    rig.produce(&KEYS, 21..=22).await;
    let second = start(rig.builder(), log.plain());
    log.until(154).await;
    let summary = second.stop().await;
    assert_eq!((summary.processed(), summary.already_done()), (14, 0), "the second goes on where the first ended");
    log.assert_once(&KEYS, 22);
}

/// Of 7 keys with 3 records each one is stuck when the worker is killed; answers what the next worker processes.
async fn processed_after_a_crash(broker: Broker, metadata: usize) -> (u64, u64) {
    let rig = Rig::new(broker, 1).await;
    rig.produce(&KEYS, 1..=3).await;
    rig.killed(KEYS[2], metadata, 18);
    let log = Log::default();
    let second = start(rig.builder(), log.plain());
    let end = async || rig.committed().await.iter().map(|commit| commit.offset).sum::<i64>() == 21;
    leastlock_testkit::until("everything is committed", LIMIT, end).await;
    let summary = second.stop().await;
    let stuck = log.processed().into_iter().filter(|(_, _, key, _)| key == KEYS[2]).count();
    assert_eq!(stuck, 3, "nothing is lost");
    (summary.processed(), summary.already_done())
}

pub(crate) async fn p5_what_was_finished_out_of_order_is_not_processed_again_after_a_crash(broker: Broker) {
    // Records 0 and 1 lie below the committed offset.
    assert_eq!(processed_after_a_crash(broker, 4_096).await, (3, 16));
}

pub(crate) async fn p5_double_a_commit_without_metadata_processes_it_again(broker: Broker) {
    assert_eq!(processed_after_a_crash(broker, 0).await, (19, 0));
}

pub(crate) async fn p5_what_the_metadata_has_no_room_for_is_processed_again_and_nothing_is_lost(broker: Broker) {
    // There is room for the base and one of the runs 3 to 8, 10 to 15, and 17 to 20.
    assert_eq!(processed_after_a_crash(broker, 14).await, (13, 6));
}

/// While handlers finish in any order, every commit is compared with what had been processed when it was read.
pub(crate) async fn p17_no_commit_marks_what_was_never_finished(broker: Broker) {
    let rig = Rig::new(broker, 1).await;
    let keys: Vec<String> = (0..40).map(|key| format!("key-{key}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    rig.produce(&keys, 1..=50).await;
    let log = Log::default();
    let uneven = |record: &Record| {
        let pause = Duration::from_micros(u64::try_from(record.offset() * 7_919 % 9_000).expect("not negative"));
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            Ok(())
        }) as BoxFuture<'static, _>
    };
    let builder = rig.builder().concurrency(32).commit_every(Duration::from_millis(1));
    let worker = start(builder, log.first(uneven));
    let mut with_a_map = 0;
    while log.processed().len() < 2_000 {
        let commit = rig.committed().await.remove(0);
        let finished: BTreeSet<i64> = log.processed().into_iter().map(|(_, offset, ..)| offset).collect();
        let above = commit.finished().unwrap_or_default();
        with_a_map += usize::from(above.runs() > 0);
        let marked = (0..commit.offset).chain(above.offsets());
        assert_eq!(marked.filter(|offset| !finished.contains(offset)).count(), 0, "{commit:?}");
    }
    worker.stop().await;
    assert!(with_a_map > 0, "no commit had anything above its offset");
    log.assert_once(&keys, 50);
}

pub(crate) async fn an_eager_rebalance_processes_nothing_twice(broker: Broker) {
    rebalance_in_the_middle(Rig::new(broker, 4).await).await;
}

pub(crate) async fn a_cooperative_rebalance_processes_nothing_twice(broker: Broker) {
    rebalance_in_the_middle(Rig::cooperative(broker).await).await;
}

/// The mock cluster, other than a broker, takes no commit while the group rebalances; what it refuses is processed again.
pub(crate) async fn an_eager_rebalance_loses_nothing(broker: Broker) {
    rebalanced(&Rig::new(broker, 4).await, Duration::from_secs(20)).await;
}

/// See above.
pub(crate) async fn a_cooperative_rebalance_loses_nothing(broker: Broker) {
    rebalanced(&Rig::cooperative(broker).await, Duration::from_secs(20)).await;
}

pub(crate) async fn a_rebalance_of_the_consumer_protocol_processes_nothing_twice(broker: Broker) {
    let mut rig = Rig::new(broker, 4).await;
    rig.settings.push(("group.protocol", "consumer".to_owned()));
    rebalance_in_the_middle(rig).await;
}

async fn rebalance_in_the_middle(rig: Rig) {
    let (log, upto) = rebalanced(&rig, Duration::from_secs(20)).await;
    log.assert_once(&KEYS, upto);
}

pub(crate) async fn double_giving_back_at_once_processes_twice(broker: Broker) {
    let rig = Rig::new(broker, 4).await;
    let (log, upto) = rebalanced(&rig, Duration::from_nanos(1)).await;
    let processed = log.processed();
    let different: BTreeSet<_> = processed.iter().map(|(partition, offset, ..)| (partition, offset)).collect();
    assert_eq!(different.len(), KEYS.len() * usize::try_from(upto).expect("small"), "nothing is lost");
    assert!(processed.len() > different.len(), "what was being processed is processed twice");
}

/// A second worker joins while the first is at work, until it has a share; answers what both processed, and the number of
/// records of each key.
async fn rebalanced(rig: &Rig, revoke_timeout: Duration) -> (Log, i64) {
    let (log, of_second) = (Log::default(), Arc::new(AtomicBool::new(false)));
    // It takes effect at its begin, and is not done for a while.
    let slow = |second: bool| {
        let (log, of_second) = (log.clone(), Arc::clone(&of_second));
        let plain = Arc::new(log.plain());
        Log::default().first(move |record| {
            of_second.fetch_or(second, Ordering::SeqCst);
            let (plain, record) = (Arc::clone(&plain), record.clone());
            Box::pin(async move {
                leastlock_partition_worker::Process::process(&*plain, &record).await?;
                tokio::time::sleep(Duration::from_millis(40)).await;
                Ok(())
            })
        })
    };
    rig.produce(&KEYS, 1..=30).await;
    let builder = || rig.builder().concurrency(4).revoke_timeout(revoke_timeout);
    let first = start(builder(), slow(false));
    log.until(20).await;
    let second = start(builder(), slow(true));
    // Until the second has a share there is always more to do.
    let mut upto = 30;
    while !of_second.load(Ordering::SeqCst) {
        rig.produce(&KEYS, upto + 1..=upto + 1).await;
        upto += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(upto < 1_500, "the second worker never got a partition");
    }
    let missing = || {
        let processed: BTreeSet<_> = log.processed().into_iter().map(|(_, _, key, number)| (key, number)).collect();
        let all = KEYS.iter().flat_map(|key| (1..=upto).map(move |number| ((*key).to_owned(), number)));
        all.filter(|record| !processed.contains(record)).collect::<Vec<_>>()
    };
    let deadline = Instant::now() + LIMIT;
    while !missing().is_empty() {
        if Instant::now() >= deadline {
            let (missing, committed) = (missing(), rig.committed().await);
            let log = rig.broker.read_all(&rig.topic, LIMIT).await;
            let is_missing =
                |key: &str, value: &str| missing.iter().any(|(of, number)| of == key && number.to_string() == value);
            let found = log.iter().filter(|record| is_missing(record.key_text(), record.value_text()));
            let found: Vec<_> = found.map(|record| (record.partition, record.offset)).collect();
            panic!(
                "not processed, of {upto} each: {missing:?}; they stand in the log at {found:?}, which has {} records; \
                 committed: {committed:?}",
                log.len()
            );
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    first.stop().await;
    second.stop().await;
    (log, upto)
}

pub(crate) async fn a_skipped_record_is_finished_and_its_key_goes_on(broker: Broker) {
    let rig = Rig::new(broker, 1).await;
    rig.produce(&KEYS[..2], 1..=3).await;
    let log = Log::default();
    let refuse = |record: &Record| {
        let result = if record.offset() == 2 { Err(Failure::permanent("never")) } else { Ok(()) };
        Box::pin(async { result }) as BoxFuture<'static, _>
    };
    let worker = start(rig.builder().on_failure(OnFailure::Skip), log.first(refuse));
    log.until(5).await;
    let summary = worker.stop().await;
    let partition = summary.partitions.values().next().expect("one partition");
    assert_eq!((partition.skipped, partition.processed, partition.failures), (1, 5, 1), "{summary:?}");
    assert_eq!(rig.committed().await[0].offset, 6, "it is finished");
}

/// The broker's `offset.metadata.max.bytes` is 4,096. (The mock cluster has no limit.)
pub(crate) async fn metadata_that_the_broker_refuses_is_cut_and_the_offset_committed(broker: Broker) {
    let rig = Rig::new(broker, 1).await;
    rig.produce(&KEYS[..1], 1..=2).await;
    rig.produce(&KEYS[..2], 3..=2_402).await;
    let log = Log::default();
    let stuck = |record: &Record| {
        let result = if record.offset() >= 2 && record.key() == Some(KEYS[0].as_bytes()) {
            Err(Failure::retry("stuck"))
        } else {
            Ok(())
        };
        Box::pin(async { result }) as BoxFuture<'static, _>
    };
    let limits = Limits { records_per_partition: 10_000, ..Limits::default() };
    let builder = rig.builder().commit_metadata(20_000).limits(limits).max_attempts(u32::MAX);
    let worker = start(builder, log.first(stuck));
    log.until(2_402).await;
    let summary = worker.stop().await;
    let commit = rig.committed().await.remove(0);
    assert_eq!(commit.offset, 2, "{commit:?}");
    let partition = summary.partitions.values().next().expect("one partition");
    assert!(partition.left_out > 0, "{partition:?}");
    assert!((1_000..=4_096).contains(&commit.metadata.len()), "there is as much as the broker takes, or half of it");
}

/// Of 700 records in 7 keys, those of one key fail for a while; answers how many of the others were processed meanwhile.
async fn processed_behind_a_stuck_key(broker: Broker, limits: Limits, looks: usize) -> usize {
    let rig = Rig::new(broker, 1).await;
    rig.produce(&KEYS, 1..=100).await;
    let (log, stuck) = (Log::default(), Arc::new(AtomicBool::new(true)));
    let holds = Arc::clone(&stuck);
    let handler = log.first(move |record| {
        let holds = record.key() == Some(KEYS[0].as_bytes()) && holds.load(Ordering::SeqCst);
        Box::pin(async move { if holds { Err(Failure::retry("stuck")) } else { Ok(()) } })
    });
    let worker = start(rig.builder().limits(limits).max_attempts(u32::MAX), handler);
    log.until(20).await;
    let mut processed = 0;
    for _ in 0..looks {
        tokio::time::sleep(Duration::from_millis(200)).await;
        processed = log.processed().len();
        if processed == 600 {
            break;
        }
    }
    let commit = async || rig.committed().await.remove(0);
    let runs = commit().await.finished().map_or(0, |finished| finished.runs());
    assert!(runs > 0 && runs <= processed, "the map has the runs behind the slow record: {runs}");
    stuck.store(false, Ordering::SeqCst);
    leastlock_testkit::until("everything is committed", LIMIT, async || commit().await.offset == 700).await;
    worker.stop().await;
    log.assert_once(&KEYS, 100);
    processed
}

/// As with a database: nothing more must come, so a machine that stands still makes the check weaker, and never makes it fail.
pub(crate) async fn p10_what_a_slow_key_holds_back_is_bounded(broker: Broker) {
    let limits = Limits { records_per_partition: 200, finished_ahead: 5, ..Limits::default() };
    let processed = processed_behind_a_stuck_key(broker, limits, 10).await;
    assert!(processed < 300, "{processed} records were processed ahead of the slow one");
}

/// There are no rows to bound.
pub(crate) async fn p10_the_limit_on_rows_of_a_database_is_none_without_one(broker: Broker) {
    let limits = Limits { finished_rows: 5, ..Limits::default() };
    assert_eq!(processed_behind_a_stuck_key(broker, limits, 300).await, 600);
}

pub(crate) async fn p10_double_without_a_limit_all_are_held(broker: Broker) {
    assert_eq!(processed_behind_a_stuck_key(broker, Limits::default(), 300).await, 600);
}

/// Processes `count` records, the first `at_once` of which end only when they all have begun; answers the offsets in the order
/// in which they began, if it came to an end.
async fn begun(rig: &Rig, builder: Builder<AtLeastOnce>, at_once: usize, count: usize) -> Option<Vec<i64>> {
    let log = Log::default();
    let (begun, barrier) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Barrier::new(at_once)));
    let begins = Arc::clone(&begun);
    let handler = log.first(move |record| {
        let barrier = Arc::clone(&barrier);
        let mut begins = begins.lock().expect("no panic under the lock");
        begins.push(record.offset());
        let waits = begins.len() <= at_once;
        Box::pin(async move {
            if waits {
                barrier.wait().await;
            }
            Ok(())
        })
    });
    let worker = start(builder.concurrency(16).drain_timeout(Duration::from_millis(200)), handler);
    let end = async || rig.committed().await[0].offset == i64::try_from(count).expect("small");
    let ended = async {
        while !end().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let patience = if at_once > 1 { Duration::from_secs(8) } else { LIMIT };
    let has_ended = tokio::time::timeout(patience, ended).await.is_ok();
    worker.stop().await;
    let begun = begun.lock().expect("no panic under the lock").clone();
    has_ended.then_some(begun)
}

pub(crate) async fn an_ordered_partition_is_processed_one_record_after_the_other(broker: Broker) {
    let rig = Rig::new(broker, 1).await;
    rig.produce(&KEYS, 1..=10).await;
    let begun = begun(&rig, rig.builder().ordering(Order::Partition), 1, 70).await;
    assert_eq!(begun, Some((0..70).collect()));
}

pub(crate) async fn unordered_records_of_a_key_are_processed_at_the_same_time(broker: Broker) {
    let rig = Rig::new(broker, 1).await;
    rig.produce(&KEYS[..1], 1..=8).await;
    assert!(begun(&rig, rig.builder().ordering(Order::Unordered), 8, 8).await.is_some());
}

pub(crate) async fn double_records_of_a_key_wait_for_each_other(broker: Broker) {
    let rig = Rig::new(broker, 1).await;
    rig.produce(&KEYS[..1], 1..=8).await;
    assert_eq!(begun(&rig, rig.builder(), 8, 8).await, None, "the second never begins");
}

pub(crate) async fn records_without_a_key_are_in_order_or_not_as_it_is_set(broker: Broker) {
    let rig = Rig::new(broker, 1).await;
    rig.produce_without_a_key(8).await;
    let unordered = rig.builder().null_keys(NullKeys::Unordered);
    assert!(begun(&rig, unordered, 8, 8).await.is_some());
    let rig = Rig::new(rig.broker, 1).await;
    rig.produce_without_a_key(8).await;
    assert_eq!(begun(&rig, rig.builder(), 1, 8).await, Some((0..8).collect()));
}

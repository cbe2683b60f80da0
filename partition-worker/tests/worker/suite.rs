//! What a worker promises, as functions over the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use leastlock_partition_worker::progress::Seal;
use leastlock_partition_worker::{Error, Failure, Limits, OnFailure, Progress, Record, TopicPartition};
use leastlock_testkit::TestDatabase;
use tokio::sync::Semaphore;

use crate::rig::{Bus, LIMIT, Rig, Told, start, until};

const KEYS: [&str; 7] = ["85123A", "71053", "84406B", "84029G", "84029E", "22752", "21730"];

pub(crate) async fn every_record_takes_effect_once_in_the_order_of_its_key<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 3).await;
    rig.produce(&KEYS, 1..=20).await;
    let first = start(rig.builder(), Told::plain("first"));
    rig.effects(140).await;
    let summary = first.stop().await;
    assert_eq!((summary.processed(), summary.already_done(), summary.drained), (140, 0, true), "{summary:?}");
    assert!(summary.partitions.values().all(|partition| partition.unfinished == 0), "{summary:?}");

    rig.produce(&KEYS, 21..=22).await;
    let second = start(rig.builder(), Told::plain("second"));
    rig.effects(154).await;
    let summary = second.stop().await;
    assert_eq!((summary.processed(), summary.already_done()), (14, 0), "the second goes on where the first ended");
    rig.assert_exactly_once(&KEYS, 22).await;
    assert_eq!(rig.database.int("SELECT count(*) FROM leastlock_partition_done").await, 0, "all is folded");
    assert_eq!(rig.committed(3).await, 154, "and Kafka has been told");
}

pub(crate) async fn an_eager_rebalance_loses_and_doubles_nothing<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 4).await;
    rebalance_in_the_middle(rig).await;
}

pub(crate) async fn a_cooperative_rebalance_loses_and_doubles_nothing<DB: Bus>(database: TestDatabase<DB>) {
    let mut rig = Rig::new(database, 4).await;
    rig.settings.push(("partition.assignment.strategy", "cooperative-sticky".to_owned()));
    rebalance_in_the_middle(rig).await;
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) async fn a_rebalance_of_the_consumer_protocol_loses_and_doubles_nothing<DB: Bus>(
    database: TestDatabase<DB>,
) {
    let mut rig = Rig::new(database, 4).await;
    rig.settings.push(("group.protocol", "consumer".to_owned()));
    rebalance_in_the_middle(rig).await;
}

/// A second worker joins, and some of four partitions are taken back.
pub(crate) async fn p9_an_incremental_revocation_leaves_kept_partitions_alone<DB: Bus>(database: TestDatabase<DB>) {
    let mut rig = Rig::new(database, 4).await;
    rig.settings.push(("partition.assignment.strategy", "cooperative-sticky".to_owned()));
    let first = start(rig.builder(), Told::plain("first"));
    rig.produce(&KEYS, 1..=3).await;
    rig.effects(21).await;
    let second = start(rig.builder(), Told::plain("second"));
    rig.until("SELECT count(*) FROM leastlock_partition WHERE epoch = 2", |moved| moved > 0, "moved partition").await;
    rig.produce(&KEYS, 4..=6).await;
    rig.effects(42).await;
    assert_eq!(rig.database.int("SELECT count(*) FROM leastlock_partition WHERE epoch > 2").await, 0);
    let kept = rig.database.int("SELECT count(*) FROM leastlock_partition WHERE epoch = 1").await;
    let (first, second) = (first.stop().await, second.stop().await);
    let untouched = first.partitions.values().filter(|of| (of.taken_over, of.given_back, of.already_done) == (1, 0, 0));
    assert_eq!(i64::try_from(untouched.count()), Ok(kept), "{first:?}");
    assert!(kept > 0 && second.processed() > 0, "{first:?} {second:?}");
    rig.assert_exactly_once(&KEYS, 6).await;
}

async fn rebalance_in_the_middle<DB: Bus>(rig: Rig<DB>) {
    rig.produce(&KEYS, 1..=30).await;
    let slow = |owner| {
        Told::first(owner, |_| {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(2)).await;
                Ok(())
            })
        })
    };
    let first = start(rig.builder().concurrency(4), slow("first"));
    rig.effects(20).await;
    let second = start(rig.builder().concurrency(4), slow("second"));
    // Until the second has a share there is always more to do.
    let mut upto = 30;
    let deadline = Instant::now() + LIMIT;
    while rig.database.int("SELECT count(*) FROM effect WHERE owner = 'second'").await == 0 {
        assert!(Instant::now() < deadline, "the second worker never got a partition");
        rig.produce(&KEYS, upto + 1..=upto + 1).await;
        upto += 1;
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let summary = first.stop().await;
    assert!(summary.processed() > 0, "{summary:?}");
    rig.produce(&KEYS, upto + 1..=upto + 5).await;
    upto += 5;
    rig.effects(7 * upto).await;
    second.stop().await;
    rig.assert_exactly_once(&KEYS, upto).await;
}

pub(crate) async fn p5_what_was_finished_out_of_order_is_not_redone_after_a_crash<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    // SQLite has one writer at a time: there the record is held up before its transaction, by failing.
    rig.produce(&KEYS, 1..=3).await;
    let stuck = |record: &Record| record.key() == Some(KEYS[2].as_bytes());
    let first = start(
        rig.builder().max_attempts(u32::MAX),
        Told::first("first", move |record| {
            let result = if stuck(record) { Err(Failure::retry("not yet")) } else { Ok(()) };
            Box::pin(async { result })
        }),
    );
    rig.effects(18).await;
    first.crash().await;
    assert_eq!(rig.database.int("SELECT count(*) FROM effect").await, 18);

    let second = start(rig.builder(), Told::plain("second"));
    rig.effects(21).await;
    let summary = second.stop().await;
    assert_eq!(summary.processed(), 3, "only the gap is redone: {summary:?}");
    assert_eq!(rig.database.int("SELECT count(*) FROM effect WHERE owner = 'second'").await, 3);
    rig.assert_exactly_once(&KEYS, 3).await;
}

pub(crate) async fn p6_two_failing_handlers_keep_the_watermark_at_the_first<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    rig.produce(&KEYS, 1..=1).await;
    let failing = |record: &Record| [2, 4].contains(&record.offset());
    let may_end = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&may_end);
    let worker = start(
        rig.builder().max_attempts(u32::MAX),
        Told::first("first", move |record| {
            let result = match (failing(record), told.load(Ordering::SeqCst)) {
                (false, _) => Ok(()),
                (true, false) => Err(Failure::retry("not now")),
                (true, true) => Err(Failure::permanent("not ever")),
            };
            Box::pin(async { result })
        }),
    );
    rig.effects(5).await;
    rig.until("SELECT next_offset FROM leastlock_partition", |next| next == 2, "fold up to the first failing").await;
    may_end.store(true, Ordering::SeqCst);
    let error = worker.ended().await.expect_err("a handler has failed for good");
    match &error {
        Error::HandlerFailed { partition, offset, .. } => {
            assert_eq!((partition.topic(), partition.partition()), (&*rig.topic, 0));
            assert!([2, 4].contains(offset), "{error}");
        }
        other => panic!("{other}"),
    }
    assert_eq!(rig.database.int("SELECT next_offset FROM leastlock_partition").await, 2);
    let second = start(rig.builder(), Told::plain("second"));
    rig.effects(7).await;
    let summary = second.stop().await;
    assert_eq!((summary.processed(), summary.already_done()), (2, 3), "{summary:?}");
    rig.assert_exactly_once(&KEYS, 1).await;
}

/// A handler is open while its partition is taken away and given to somebody, perhaps to the same worker. (On
/// SQLite nothing shows that a seal waits for the one write lock; the fence alone is tested there.)
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) async fn p7_a_handler_from_an_earlier_assignment_counts_once<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    rig.produce(&KEYS[..1], 1..=3).await;
    let gate = Arc::new(Semaphore::new(0));
    let (entered, waits) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&gate));
    let seen = Arc::clone(&entered);
    let first = start(
        rig.builder(),
        Told::first("first", move |record| {
            let (waits, seen, held) = (Arc::clone(&waits), Arc::clone(&seen), record.offset() == 1);
            Box::pin(async move {
                if held && seen.fetch_add(1, Ordering::SeqCst) == 0 {
                    waits.acquire().await.expect("never closed").forget();
                }
                Ok(())
            })
        }),
    );
    until("open handler", || entered.load(Ordering::SeqCst) > 0).await;
    let second = start(rig.builder(), Told::plain("second"));
    // The newest epoch is claimed at the gate while the handler is open.
    rig.until("SELECT epoch FROM leastlock_partition_gate", |epoch| epoch > 1, "claim of the next epoch").await;
    assert_eq!(rig.database.int("SELECT epoch FROM leastlock_partition").await, 1, "the seal waits for the handler");
    gate.add_permits(1);
    rig.produce(&KEYS[..1], 4..=5).await;
    rig.effects(5).await;
    let (first, second) = (first.stop().await, second.stop().await);
    assert_eq!(first.processed() + second.processed(), 5, "{first:?} {second:?}");
    assert!(rig.database.int("SELECT epoch FROM leastlock_partition").await > 1);
    rig.assert_exactly_once(&KEYS[..1], 5).await;
}

pub(crate) async fn a_skipped_record_is_finished_without_an_effect_and_its_key_goes_on<DB: Bus>(
    database: TestDatabase<DB>,
) {
    let rig = Rig::new(database, 1).await;
    rig.produce(&KEYS[..2], 1..=3).await;
    let refuse = |record: &Record| {
        let result = if record.offset() == 2 { Err(Failure::permanent("never")) } else { Ok(()) };
        Box::pin(async { result }) as BoxFuture<'static, _>
    };
    let worker = start(rig.builder().on_failure(OnFailure::Skip), Told::first("skips", refuse));
    rig.effects(5).await;
    let summary = worker.stop().await;
    let partition = summary.partitions.values().next().expect("one partition");
    assert_eq!((partition.skipped, partition.processed, partition.failures), (1, 5, 1), "{summary:?}");
    assert_eq!(rig.database.int("SELECT next_offset FROM leastlock_partition").await, 6, "it is finished");
    assert_eq!(rig.database.int("SELECT count(*) FROM effect WHERE number = 2").await, 1, "the other key's");
}

pub(crate) async fn a_failing_handler_is_tried_again_in_its_lane_while_others_go_on<DB: Bus>(
    database: TestDatabase<DB>,
) {
    let rig = Rig::new(database, 1).await;
    rig.produce(&KEYS, 1..=3).await;
    let others = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&others);
    let worker = start(
        rig.builder().concurrency(1).max_attempts(u32::MAX),
        Told::first("first", move |record| {
            let failing = record.key() == Some(KEYS[0].as_bytes());
            let others = if failing { seen.load(Ordering::SeqCst) } else { seen.fetch_add(1, Ordering::SeqCst) };
            Box::pin(async move {
                match others {
                    count if !failing || count >= 18 => Ok(()),
                    count if count % 2 == 0 => Err(Failure::retry("not before the others")),
                    _ => panic!("a panic is a failure too"),
                }
            })
        }),
    );
    rig.effects(21).await;
    let summary = worker.stop().await;
    assert!(summary.partitions.values().next().is_some_and(|partition| partition.failures > 0), "{summary:?}");
    rig.assert_exactly_once(&KEYS, 3).await;
}

/// It may be its connection that has died without a word.
pub(crate) async fn a_handler_that_never_ends_is_cancelled_and_counts_as_failed<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    rig.produce(&KEYS[..1], 1..=1).await;
    let builder = rig.builder().max_attempts(2).handler_timeout(Duration::from_millis(100));
    let never = Told::first("never", |_| Box::pin(std::future::pending()));
    let error = start(builder, never).ended().await.expect_err("it never ends");
    assert!(matches!(error, Error::HandlerFailed { offset: 0, attempts: 2, .. }), "{error:?}");
    assert_eq!(rig.database.int("SELECT count(*) FROM effect").await, 0);
}

pub(crate) async fn p15_a_shutdown_lets_running_handlers_finish<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    rig.produce(&KEYS[..1], 1..=5).await;
    let gate = Arc::new(Semaphore::new(0));
    let running = Arc::new(AtomicUsize::new(0));
    let (waits, seen) = (Arc::clone(&gate), Arc::clone(&running));
    let worker = start(
        rig.builder(),
        Told::first("first", move |_| {
            let waits = Arc::clone(&waits);
            seen.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                waits.acquire().await.expect("never closed").forget();
                Ok(())
            })
        }),
    );
    until("running handler", || running.load(Ordering::SeqCst) == 1).await;
    worker.shutdown.cancel();
    gate.add_permits(10);
    let summary = worker.ended().await.expect("the worker ends without an error");
    let partition = summary.partitions.values().next().expect("one partition");
    assert!(summary.drained, "{summary:?}");
    assert_eq!(partition.watermark, Some(i64::try_from(partition.processed).expect("small")), "{summary:?}");
    assert_eq!(
        rig.database.int("SELECT count(*) FROM effect").await,
        i64::try_from(summary.processed()).expect("small")
    );
}

pub(crate) async fn p18_a_worker_with_nothing_to_do_closes_without_an_error<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 2).await;
    let joining = start(rig.builder(), Told::plain("joining"));
    let summary = joining.stop().await;
    assert_eq!((summary.processed(), summary.drained), (0, true));
    let idle = start(rig.builder(), Told::plain("idle"));
    rig.until("SELECT count(*) FROM leastlock_partition WHERE next_offset IS NOT NULL", |found| found == 2, "seals")
        .await;
    let summary = idle.stop().await;
    assert_eq!((summary.processed(), summary.drained), (0, true));
}

/// A worker that Kafka has long forgotten wakes up in the middle of its seal, and takes the partition from its owner.
pub(crate) async fn a_partition_that_a_stranger_has_sealed_is_taken_again<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 2).await;
    rig.produce(&KEYS, 1..=2).await;
    let worker = start(rig.builder().rejoin_after(Duration::from_secs(1)), Told::plain("owner"));
    rig.effects(14).await;
    let stranger = Progress::new(rig.database.pool.clone(), rig.group.as_str(), "stranger");
    for partition in 0..2 {
        let sealed = stranger.seal(&TopicPartition::new(rig.topic.as_str(), partition)).await.expect("a seal");
        assert!(matches!(sealed, Seal::Sealed(_)), "{sealed:?}");
    }
    rig.produce(&KEYS, 3..=4).await;
    rig.effects(28).await;
    assert!(rig.database.int("SELECT min(epoch) FROM leastlock_partition").await >= 2);
    worker.stop().await;
    rig.assert_exactly_once(&KEYS, 4).await;
}

/// Of 700 records in 7 keys, those of one key fail for a while; answers how many of the others were handled meanwhile, and how many rows
/// that made of finished offsets.
async fn handled_behind_a_stuck_key<DB: Bus>(database: TestDatabase<DB>, limits: Limits, looks: usize) -> (i64, i64) {
    let rig = Rig::new(database, 1).await;
    rig.produce(&KEYS, 1..=100).await;
    let stuck = Arc::new(AtomicBool::new(true));
    let holds = Arc::clone(&stuck);
    let worker = start(
        rig.builder().limits(limits).max_attempts(u32::MAX),
        Told::first("bounded", move |record| {
            let holds = record.key() == Some(KEYS[0].as_bytes()) && holds.load(Ordering::SeqCst);
            Box::pin(async move { if holds { Err(Failure::retry("stuck")) } else { Ok(()) } })
        }),
    );
    rig.effects(20).await;
    let (mut handled, mut rows) = (0, 0);
    for _ in 0..looks {
        tokio::time::sleep(Duration::from_millis(200)).await;
        handled = rig.database.int("SELECT count(*) FROM effect").await;
        rows = rig.database.int("SELECT count(*) FROM leastlock_partition_done").await;
        if handled == 600 {
            break;
        }
    }
    stuck.store(false, Ordering::SeqCst);
    rig.effects(700).await;
    worker.stop().await;
    assert_eq!(rig.database.int("SELECT count(*) FROM leastlock_partition_done").await, 0, "all is folded");
    rig.assert_exactly_once(&KEYS, 100).await;
    (handled, rows)
}

pub(crate) async fn p10_what_a_slow_key_holds_back_is_bounded<DB: Bus>(database: TestDatabase<DB>) {
    // Nothing more must come, so a machine that stands still makes the check weaker, and never makes it fail.
    // Behind each record of the slow key there is a run of six others.
    let limits = Limits { records_per_partition: 200, finished_ahead: 5, ..Limits::default() };
    let (handled, _) = handled_behind_a_stuck_key(database, limits, 10).await;
    // What was delivered before the pause goes on: up to the 30, and the 128 between two looks at the limits, twice.
    assert!(handled < 300, "{handled} records were handled ahead of the slow one");
}

pub(crate) async fn p10_double_without_a_limit_all_are_held<DB: Bus>(database: TestDatabase<DB>) {
    assert_eq!(handled_behind_a_stuck_key(database, Limits::default(), 300).await, (600, 600));
}

/// However the finished offsets lie, each of them has a row, which the next owner reads.
pub(crate) async fn p10_the_rows_of_finished_offsets_behind_a_slow_key_are_bounded<DB: Bus>(
    database: TestDatabase<DB>,
) {
    let limits = Limits { records_per_partition: 200, finished_rows: 30, ..Limits::default() };
    let (handled, rows) = handled_behind_a_stuck_key(database, limits, 10).await;
    assert!(rows <= handled && rows < 300, "{rows} rows for {handled} records that were handled ahead of the slow one");
}

/// The topic was made anew, or records were deleted before they were handled.
pub(crate) async fn an_offset_that_the_log_does_not_have_stops_the_worker<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    rig.produce(&KEYS[..1], 1..=2).await;
    let first = start(rig.builder(), Told::plain("first"));
    rig.effects(2).await;
    first.stop().await;
    rig.database.execute("UPDATE leastlock_partition SET next_offset = 1000").await;
    rig.produce(&KEYS[..1], 3..=3).await;
    let error = start(rig.builder(), Told::plain("second")).ended().await.expect_err("record 2 would be skipped");
    assert!(matches!(error, Error::OutsideOfLog { next_offset: 1_000, log_start: 0, log_end: 3, .. }), "{error:?}");
    rig.database.execute("UPDATE leastlock_partition SET next_offset = 2").await;
    let third = start(rig.builder(), Told::plain("third"));
    rig.effects(3).await;
    third.stop().await;
    rig.assert_exactly_once(&KEYS[..1], 3).await;
}

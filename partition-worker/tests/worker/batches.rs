//! Many records in a transaction.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leastlock_partition_worker::effect::InDatabase;
use leastlock_partition_worker::{
    BatchFailure, BatchHandler, Builder, Failure, OnFailure, Ordering as Order, Record, WorkerSql,
};
use leastlock_testkit::TestDatabase;
use sqlx::Transaction;
use tokio_util::sync::CancellationToken;

use crate::rig::{Bus, LIMIT, Rig, Running, apply};

const KEYS: [&str; 7] = ["85123A", "71053", "84406B", "84029G", "84029E", "22752", "21730"];

type Fails = dyn Fn(&[Record]) -> Result<(), BatchFailure> + Send + Sync;

/// Inserts an effect for each record, unless it is to fail; notes the offsets of each batch.
#[derive(Clone)]
struct Gathers {
    owner: &'static str,
    fails: Arc<Fails>,
    batches: Arc<Mutex<Vec<Vec<i64>>>>,
}

impl Gathers {
    fn plain(owner: &'static str) -> Self {
        Self::unless(owner, |_| Ok(()))
    }

    fn unless(
        owner: &'static str,
        fails: impl Fn(&[Record]) -> Result<(), BatchFailure> + Send + Sync + 'static,
    ) -> Self {
        Self { owner, fails: Arc::new(fails), batches: Arc::default() }
    }

    fn batches(&self) -> Vec<Vec<i64>> {
        self.batches.lock().expect("no panic under the lock").clone()
    }
}

impl<DB: WorkerSql> BatchHandler<DB> for Gathers {
    async fn handle(&self, batch: &[Record], tx: &mut Transaction<'_, DB>) -> Result<(), BatchFailure> {
        let offsets = batch.iter().map(Record::offset).collect();
        self.batches.lock().expect("no panic under the lock").push(offsets);
        for record in batch {
            apply::<DB>(tx, record, self.owner).await?;
        }
        // Afterwards, so that what fails has something to roll back.
        (self.fails)(batch)
    }
}

fn start<DB: WorkerSql>(builder: Builder<InDatabase<DB>>, handler: Gathers) -> Running {
    let shutdown = CancellationToken::new();
    let worker = builder.build().expect("a worker");
    Running { task: tokio::spawn(worker.run_batches(handler, shutdown.clone())), shutdown }
}

pub(crate) async fn every_record_of_a_batch_takes_effect_once_in_the_order_of_its_key<DB: Bus>(
    database: TestDatabase<DB>,
) {
    let rig = Rig::new(database, 3).await;
    rig.produce(&KEYS, 1..=20).await;
    let handler = Gathers::plain("first");
    let first = start(rig.builder().max_batch(10), handler.clone());
    rig.effects(140).await;
    let summary = first.stop().await;
    assert_eq!((summary.processed(), summary.already_done(), summary.drained), (140, 0, true), "{summary:?}");
    let sizes: Vec<usize> = handler.batches().iter().map(Vec::len).collect();
    assert!(sizes.iter().all(|size| (1..=10).contains(size)), "{sizes:?}");
    assert!(sizes.iter().any(|size| *size > 1), "{sizes:?}");
    assert!(handler.batches().iter().all(|batch| batch.is_sorted()), "offsets rise within a batch");
    rig.assert_exactly_once(&KEYS, 20).await;

    rig.produce(&KEYS, 21..=22).await;
    let second = start(rig.builder(), Gathers::plain("second"));
    rig.effects(154).await;
    let summary = second.stop().await;
    assert_eq!((summary.processed(), summary.already_done()), (14, 0), "the second goes on where the first ended");
    rig.assert_exactly_once(&KEYS, 22).await;
    assert_eq!(rig.database.int("SELECT count(*) FROM leastlock_partition_done").await, 0, "all is folded");
}

pub(crate) async fn an_ordered_partition_is_worked_on_by_one_batch_at_a_time<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    rig.produce(&KEYS, 1..=20).await;
    let handler = Gathers::plain("ordered");
    let worker = start(rig.builder().max_batch(10).ordering(Order::Partition), handler.clone());
    rig.effects(140).await;
    worker.stop().await;
    let offsets: Vec<i64> = handler.batches().concat();
    assert_eq!(offsets, (0..140).collect::<Vec<_>>(), "no batch has begun before the one before it had ended");
    rig.assert_exactly_once(&KEYS, 20).await;
}

/// Of 21 records one fails for ever; answers how often it was tried.
async fn tried<DB: Bus>(
    database: TestDatabase<DB>,
    fails: impl Fn(&Record) -> BatchFailure + Send + Sync + 'static,
) -> usize {
    let rig = Rig::new(database, 1).await;
    rig.produce(&KEYS, 1..=3).await;
    let handler = Gathers::unless("parts", move |batch| {
        batch.iter().find(|record| record.offset() == 9).map_or(Ok(()), |record| Err(fails(record)))
    });
    let worker = start(rig.builder().on_failure(OnFailure::Skip), handler.clone());
    rig.effects(20).await;
    let finished = |next| next == 21;
    rig.until("SELECT next_offset FROM leastlock_partition", finished, "fold of everything").await;
    let summary = worker.stop().await;
    let partition = summary.partitions.values().next().expect("one partition");
    assert_eq!((partition.skipped, partition.processed), (1, 20), "{summary:?}");
    assert_eq!(rig.database.int("SELECT count(*) FROM effect").await, 20);
    let with_it: Vec<_> = handler.batches().into_iter().filter(|batch| batch.contains(&9)).collect();
    assert_eq!(with_it.last(), Some(&vec![9]), "it was alone in the end");
    with_it.len()
}

pub(crate) async fn of_a_failing_batch_only_the_record_that_fails_is_given_up<DB: Bus>(database: TestDatabase<DB>) {
    assert!(tried(database, |_| Failure::permanent("somebody").into()).await <= 6, "it is halved: 21, 10, 5, 2, 1");
}

pub(crate) async fn a_record_that_the_handler_names_is_alone_at_once<DB: Bus>(database: TestDatabase<DB>) {
    assert!(tried(database, |record| BatchFailure::at(record, Failure::permanent("this one"))).await <= 2);
}

/// Its key waits meanwhile, and no other does.
pub(crate) async fn a_failing_record_of_a_batch_is_tried_again_while_others_go_on<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    rig.produce(&KEYS, 1..=3).await;
    let (may_end, told) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (ends, tells) = (Arc::clone(&may_end), Arc::clone(&told));
    let handler = Gathers::unless("retries", move |batch| {
        let is_bad = |record: &Record| record.key() == Some(KEYS[0].as_bytes());
        if !ends.load(Ordering::SeqCst) && batch.iter().any(is_bad) {
            match tells.fetch_add(1, Ordering::SeqCst) % 2 {
                0 => return Err(Failure::retry("not before the others").into()),
                _ => panic!("a panic is a failure too"),
            }
        }
        Ok(())
    });
    let worker = start(rig.builder().max_attempts(u32::MAX), handler);
    rig.effects(18).await;
    assert_eq!(rig.database.int("SELECT count(*) FROM effect WHERE record_key = '85123A'").await, 0);
    may_end.store(true, Ordering::SeqCst);
    rig.effects(21).await;
    let summary = worker.stop().await;
    assert!(told.load(Ordering::SeqCst) > 1);
    assert_eq!(summary.processed(), 21, "{summary:?}");
    rig.assert_exactly_once(&KEYS, 3).await;
}

pub(crate) async fn a_rebalance_between_batches_loses_and_doubles_nothing<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 4).await;
    rig.produce(&KEYS, 1..=30).await;
    let first = start(rig.builder().max_batch(5), Gathers::plain("first"));
    rig.effects(20).await;
    let second = start(rig.builder().max_batch(5), Gathers::plain("second"));
    let mut upto = 30;
    let deadline = Instant::now() + LIMIT;
    while rig.database.int("SELECT count(*) FROM effect WHERE owner = 'second'").await == 0 {
        assert!(Instant::now() < deadline, "the second worker never got a partition");
        upto += 1;
        rig.produce(&KEYS, upto..=upto).await;
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    first.stop().await;
    rig.produce(&KEYS, upto + 1..=upto + 5).await;
    upto += 5;
    rig.effects(7 * upto).await;
    second.stop().await;
    rig.assert_exactly_once(&KEYS, upto).await;
}

/// The reply to the commit of a batch is lost, and the batch is found finished.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) async fn a_batch_whose_commit_has_no_reply_counts_once<DB: crate::no_answer::Seen>(
    database: TestDatabase<DB>,
) {
    use leastlock_testkit::proxy::Then;
    use leastlock_testkit::proxy::statement::{is_commit, once};

    let rig = Rig::new(database, 1).await;
    let (proxy, builder) = crate::no_answer::proxied(&rig, Duration::from_millis(500)).await;
    let worker = start(builder.fold_every(Duration::from_hours(1)), Gathers::plain("worker"));
    rig.produce(&KEYS, 1..=1).await;
    rig.effects(7).await;
    proxy.swallow_reply_to(once(is_commit()), Then::Cut);
    rig.produce(&KEYS, 2..=3).await;
    proxy.fired(1, LIMIT).await;
    rig.produce(&KEYS, 4..=5).await;
    rig.effects(35).await;
    let summary = worker.stop().await;
    assert_eq!((summary.processed(), summary.already_done()), (35, 0), "{summary:?}");
    rig.assert_exactly_once(&KEYS, 5).await;
}

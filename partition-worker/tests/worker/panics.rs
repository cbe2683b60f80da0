//! Handlers that panic before they answer a future: no async block of theirs has begun by then.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use leastlock_partition_worker::{BatchFailure, BatchHandler, Failure, Handler, Record, WorkerSql};
use leastlock_testkit::TestDatabase;
use sqlx::Transaction;
use tokio_util::sync::CancellationToken;

use crate::rig::{Bus, Rig, Running, apply, start};

const KEYS: [&str; 7] = ["85123A", "71053", "84406B", "84029G", "84029E", "22752", "21730"];
/// More panics than there are places for handlers.
const PANICS: usize = 5;

/// Panics at the first record of each of some keys, and handles it when it is tried again.
#[derive(Default)]
struct PanicsAtOnce {
    seen: Mutex<BTreeSet<i64>>,
    panics: AtomicUsize,
}

impl PanicsAtOnce {
    fn look(&self, record: &Record) {
        let is_first = record.value() == Some(b"1") && self.panics.load(Ordering::SeqCst) < PANICS;
        let is_new = self.seen.lock().expect("no panic under the lock").insert(record.offset());
        if is_first && is_new {
            self.panics.fetch_add(1, Ordering::SeqCst);
            panic!("before there is a future");
        }
    }
}

impl<DB: WorkerSql> Handler<DB> for PanicsAtOnce {
    fn handle(
        &self,
        record: &Record,
        tx: &mut Transaction<'_, DB>,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        self.look(record);
        async move { apply::<DB>(tx, record, "panics").await }
    }
}

impl<DB: WorkerSql> BatchHandler<DB> for PanicsAtOnce {
    fn handle(
        &self,
        batch: &[Record],
        tx: &mut Transaction<'_, DB>,
    ) -> impl Future<Output = Result<(), BatchFailure>> + Send {
        for record in batch {
            self.look(record);
        }
        async move {
            for record in batch {
                apply::<DB>(tx, record, "panics").await?;
            }
            Ok(())
        }
    }
}

/// All records take effect, the lanes of those that panicked and the places of their handlers go on, and the end is drained.
async fn panics_cost_attempts_and_nothing_else<DB: Bus>(rig: Rig<DB>, worker: Running) {
    rig.produce(&KEYS, 1..=3).await;
    rig.effects(21).await;
    let summary = worker.stop().await;
    let failures = summary.partitions.values().map(|partition| partition.failures).sum::<u64>();
    assert_eq!((summary.processed(), summary.drained), (21, true), "{summary:?}");
    assert_eq!(failures, PANICS as u64, "{summary:?}");
    rig.assert_exactly_once(&KEYS, 3).await;
}

pub(crate) async fn a_handler_that_panics_before_its_future_is_tried_again<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    let worker = start(rig.builder().concurrency(2), PanicsAtOnce::default());
    panics_cost_attempts_and_nothing_else(rig, worker).await;
}

pub(crate) async fn a_batch_handler_that_panics_before_its_future_is_tried_again<DB: Bus>(database: TestDatabase<DB>) {
    let rig = Rig::new(database, 1).await;
    let worker = rig.builder().concurrency(2).max_batch(4).build().expect("a worker");
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(worker.run_batches(PanicsAtOnce::default(), shutdown.clone()));
    panics_cost_attempts_and_nothing_else(rig, Running { task, shutdown }).await;
}

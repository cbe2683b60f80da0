//! P11: what a handler is blamed for, and what it is not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leastlock_partition_worker::progress::Entry;
use leastlock_partition_worker::{Epoch, Error, OnStall, Progress, Record, Summary, TopicPartition};
use leastlock_testkit::TestDatabase;
use tokio::sync::Semaphore;

use crate::rig::{Bus, Rig, Told, start};

const KEY: [&str; 1] = ["85123A"];
const STALL_AFTER: Duration = Duration::from_millis(300);
/// Time in which a stall is noticed; no more is asked of it.
const MEANWHILE: Duration = Duration::from_secs(3);

/// Record 1 has to wait for somebody: before its handler is called, for a transaction that is in its way, or within. Answers how the worker
/// ends, which leaves its group for a handler that stalls.
async fn waits<DB: Bus>(database: TestDatabase<DB>, within: bool) -> Result<Summary, Error> {
    let rig = Rig::new(database, 1).await;
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let handler = Told::first("waits", move |record: &Record| {
        let (waits, within) = (Arc::clone(&waits), within && record.offset() == 1);
        Box::pin(async move {
            if within {
                waits.acquire().await.expect("never closed").forget();
            }
            Ok(())
        })
    });
    let builder = rig.builder().stall_after(STALL_AFTER).on_stall(OnStall::LeaveGroup);
    let worker = start(builder.drain_timeout(Duration::from_secs(10)), handler);
    rig.produce(&KEY, 1..=1).await;
    rig.effects(1).await;

    let partition = TopicPartition::new(rig.topic.as_str(), 0);
    let other = Progress::new(rig.database.pool.clone(), rig.group.as_str(), "in the way");
    let mut open = other.pool().begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    if within {
        open.rollback().await.expect("a rollback");
        rig.produce(&KEY, 2..=2).await;
        meanwhile(|| worker.task.is_finished()).await;
        gate.add_permits(1);
    } else {
        let entered = other.enter(&mut open, &partition, Epoch::new(1), 1).await.expect("an answer");
        assert_eq!(entered, Entry::Entered);
        rig.produce(&KEY, 2..=2).await;
        meanwhile(|| worker.task.is_finished()).await;
        open.rollback().await.expect("a rollback");
        if !worker.task.is_finished() {
            rig.effects(2).await;
        }
    }
    worker.shutdown.cancel();
    worker.ended().await
}

async fn meanwhile(is_over: impl Fn() -> bool) {
    let end = Instant::now() + MEANWHILE;
    while !is_over() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn p11_what_waits_for_the_database_is_no_stalled_handler<DB: Bus>(database: TestDatabase<DB>) {
    let summary = waits(database, false).await.expect("no handler has stalled");
    assert_eq!((summary.processed(), summary.drained), (2, true), "{summary:?}");
}

pub(crate) async fn p11_double_a_handler_that_waits_by_itself_is_one<DB: Bus>(database: TestDatabase<DB>) {
    let error = waits(database, true).await.expect_err("the worker has left");
    assert!(matches!(error, Error::Stalled { offset: 1, .. }), "{error:?}");
}

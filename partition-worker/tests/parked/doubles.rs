//! Owners that make the classic mistakes.

use leastlock_core::Statement;
use leastlock_partition_worker::TopicPartition;
use leastlock_partition_worker::parked::{Copied, ParkedSql, Queue};
use sqlx::Transaction;

/// How a record follows its key.
pub(crate) enum Follow {
    Real,
    /// Sees that the queue is there, and does not hold it.
    WithoutLock,
}

pub(crate) async fn follow_without_lock<DB: ParkedSql>(
    tx: &mut Transaction<'_, DB>,
    group: &str,
    partition: &TopicPartition,
    queue: Queue,
    copy: &Copied,
) {
    let name = queue.to_string();
    let note =
        Statement::new(DB::PARK_RECORD).bind(group).bind(partition.topic()).bind(i64::from(partition.partition()));
    let note = note.bind(&name).bind(copy.offset).bind(i64::from(copy.parking_partition)).bind(copy.parking_offset);
    note.bind(i64::from(copy.attempts)).execute::<DB>(tx).await.expect("it is noted");
}

/// When a released record leaves its queue.
#[derive(Clone, Copy)]
pub(crate) enum Leave {
    /// In the transaction of its effect.
    WithTheEffect,
    /// In a transaction of its own afterwards.
    After,
}

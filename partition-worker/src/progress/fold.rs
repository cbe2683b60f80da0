//! Many finished offsets become one.

use leastlock_core::Statement;

use super::seal::is_wait_over;
use super::{Progress, millis};
use crate::partition::{Epoch, TopicPartition};
use crate::sql::WorkerSql;

/// What a fold did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a fold that was in the way of handlers has to be tried again"]
pub enum Fold {
    /// Everything below the new `next_offset` is finished, and that many rows were forgotten.
    Folded {
        /// The rows.
        rows: u64,
    },
    /// Nothing to do: another owner has the partition, or `next_offset` is as high already.
    Unchanged,
    /// A handler held the guard row for longer than the time-out. Try again later.
    InTheWay,
}

impl<DB: WorkerSql> Progress<DB> {
    /// Raises `next_offset` to `watermark`, below which every delivered record is finished, and forgets the offsets below.
    ///
    /// It waits for open handlers, and handlers that start meanwhile do not wait for it: on PostgreSQL share-lockers starve
    /// an exclusive waiter, and on MariaDB they queue behind it. So the owner holds its own handlers back while this runs.
    ///
    /// # Errors
    /// What the database said, or that it said nothing within [`Timeouts::request`](super::Timeouts::request). Nothing has
    /// changed then, or, if only the reply was lost, all of it.
    ///
    /// # Cancel safety
    /// It happens as a whole or not at all.
    pub async fn fold(&self, partition: &TopicPartition, epoch: Epoch, watermark: i64) -> Result<Fold, sqlx::Error> {
        match self.answered(self.try_fold(partition, epoch, watermark)).await {
            Err(error) if is_wait_over::<DB>(&error) => Ok(Fold::InTheWay),
            other => other,
        }
    }

    async fn try_fold(&self, partition: &TopicPartition, epoch: Epoch, watermark: i64) -> Result<Fold, sqlx::Error> {
        let mut tx = DB::begin_step(&self.pool).await?;
        if let Some(sql) = DB::FOLD_BOUND {
            Statement::new(sql).bind(millis(self.timeouts.fold)).execute::<DB>(&mut tx).await?;
        }
        let raise = self.about(DB::FOLD_RAISE, partition).bind(epoch.get()).bind(watermark);
        if raise.bind(millis(self.timeouts.fold)).execute::<DB>(&mut tx).await? == 0 {
            tx.roll_back().await?;
            return Ok(Fold::Unchanged);
        }
        let rows = self.about(DB::FOLD_FORGET, partition).bind(watermark).execute::<DB>(&mut tx).await?;
        tx.commit().await?;
        Ok(Fold::Folded { rows })
    }
}

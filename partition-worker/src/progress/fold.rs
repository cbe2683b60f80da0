//! Many finished offsets become one.

use leastlock_core::Statement;

use super::seal::is_wait_over;
use super::{Progress, millis};
use crate::partition::{Epoch, TopicPartition};
use crate::sql::WorkerSql;

/// Finished offsets that one statement forgets.
pub(super) const PIECE: u64 = 5_000;

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
    /// Raises `next_offset` to `watermark`, below which every delivered record is finished, and forgets the offsets below, piece by
    /// piece.
    ///
    /// It waits for open handlers, and handlers that start meanwhile do not wait for it: on PostgreSQL share-lockers starve
    /// an exclusive waiter, and on MariaDB they queue behind it. So the owner holds its own handlers back while this runs.
    ///
    /// # Errors
    /// What the database said, or that it said nothing within [`Timeouts::request`](super::Timeouts::request). `next_offset` may have
    /// been raised; what is not forgotten then is by the next fold.
    ///
    /// # Cancel safety
    /// As for an error.
    pub async fn fold(&self, partition: &TopicPartition, epoch: Epoch, watermark: i64) -> Result<Fold, sqlx::Error> {
        match self.raise_next_offset(partition, epoch, watermark).await? {
            Fold::Folded { .. } => Ok(Fold::Folded { rows: self.forget_folded(partition, epoch, watermark).await? }),
            other => Ok(other),
        }
    }

    /// The first step of a fold, for which handlers are to be held back. It forgets nothing yet.
    pub(crate) async fn raise_next_offset(
        &self,
        partition: &TopicPartition,
        epoch: Epoch,
        watermark: i64,
    ) -> Result<Fold, sqlx::Error> {
        match self.answered(self.try_to_raise(partition, epoch, watermark)).await {
            Err(error) if is_wait_over::<DB>(&error) => Ok(Fold::InTheWay),
            other => other,
        }
    }

    /// The second step, beside which handlers may run; answers how many rows it has forgotten.
    pub(crate) async fn forget_folded(
        &self,
        partition: &TopicPartition,
        epoch: Epoch,
        watermark: i64,
    ) -> Result<u64, sqlx::Error> {
        let mut rows = 0;
        loop {
            let piece = self.answered(self.forget_some(partition, epoch, watermark)).await?;
            rows += piece;
            if piece < PIECE {
                return Ok(rows);
            }
        }
    }

    async fn try_to_raise(
        &self,
        partition: &TopicPartition,
        epoch: Epoch,
        watermark: i64,
    ) -> Result<Fold, sqlx::Error> {
        let mut tx = DB::begin_step(&self.pool).await?;
        if let Some(sql) = DB::FOLD_BOUND {
            Statement::new(sql).bind(millis(self.timeouts.fold)).execute::<DB>(&mut tx).await?;
        }
        let raise = self.about(DB::FOLD_RAISE, partition).bind(epoch.get()).bind(watermark);
        if raise.bind(millis(self.timeouts.fold)).execute::<DB>(&mut tx).await? == 0 {
            tx.roll_back().await?;
            return Ok(Fold::Unchanged);
        }
        tx.commit().await?;
        Ok(Fold::Folded { rows: 0 })
    }

    async fn forget_some(&self, partition: &TopicPartition, epoch: Epoch, watermark: i64) -> Result<u64, sqlx::Error> {
        let mut tx = DB::begin_step(&self.pool).await?;
        // Another owner may go on further below, after a rebase, and what lies below the watermark is then its own.
        if !self.hold(&mut tx, partition, epoch).await? {
            tx.roll_back().await?;
            return Ok(0);
        }
        let rows = self.forget_below(&mut tx, partition, watermark).await?;
        tx.commit().await?;
        Ok(rows)
    }

    /// Forgets finished offsets below this one, the first [`PIECE`] of them, behind the guard row; answers how many.
    pub(super) async fn forget_below(
        &self,
        connection: &mut DB::Connection,
        partition: &TopicPartition,
        offset: i64,
    ) -> Result<u64, sqlx::Error> {
        let forget = self.about(DB::FOLD_FORGET, partition).bind(offset);
        forget.bind(i64::try_from(PIECE).unwrap_or(i64::MAX)).execute::<DB>(connection).await
    }
}

//! The first statement of a transaction for many records.

use std::collections::BTreeSet;

use leastlock_core::{ErrorClass, classify};
use sqlx::Transaction;

use super::{Progress, millis};
use crate::partition::{Epoch, TopicPartition};
use crate::sql::WorkerSql;

impl<DB: WorkerSql> Progress<DB> {
    /// Lets the handler of many records of a partition into its transaction, as [`enter`](Self::enter) does that of one; answers
    /// whether. If it does, and the transaction commits, all of them are finished. If it does not, roll back, and ask
    /// [`finished_among`](Self::finished_among) why.
    ///
    /// The `offsets` are distinct and sorted, so that transactions that meet wait for each other in one order.
    ///
    /// # Errors
    /// What the database said, or that it said nothing within [`Timeouts::request`](super::Timeouts::request). The
    /// transaction is of no use then.
    ///
    /// # Cancel safety
    /// Nothing is decided before the transaction ends; drop it.
    pub async fn enter_all(
        &self,
        tx: &mut Transaction<'_, DB>,
        partition: &TopicPartition,
        epoch: Epoch,
        offsets: &[i64],
    ) -> Result<bool, sqlx::Error> {
        let listed = list(offsets);
        let enter = self.about(DB::FENCE_BATCH, partition).bind(epoch.get()).bind(&*listed);
        match self.answered(enter.bind(millis(self.timeouts.idle)).execute::<DB>(&mut *tx)).await {
            Ok(entered) => Ok(usize::try_from(entered) == Ok(offsets.len())),
            Err(error) if classify::<DB>(&error) == ErrorClass::UniqueViolation => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Which of these records are finished; `None`: another owner has taken the partition over, or no owner has fixed yet
    /// [where the group starts](Self::anchor).
    ///
    /// # Errors
    /// What the database said, or that it said nothing within [`Timeouts::request`](super::Timeouts::request).
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn finished_among(
        &self,
        partition: &TopicPartition,
        epoch: Epoch,
        offsets: &[i64],
    ) -> Result<Option<BTreeSet<i64>>, sqlx::Error> {
        let listed = list(offsets);
        let asked = async {
            let mut tx = self.begin().await?;
            let finished = self.about(DB::FENCE_FINISHED, partition).bind(epoch.get()).bind(&*listed);
            let rows = finished.fetch_all::<DB>(&mut tx).await?;
            tx.roll_back().await?;
            Ok(rows)
        };
        let rows = self.answered(asked).await?;
        if rows.is_empty() {
            return Ok(None);
        }
        let offsets = rows.iter().filter_map(|row| row.optional_int(0).transpose());
        offsets.collect::<Result<_, _>>().map(Some)
    }
}

/// In a form that every engine can take apart.
fn list(offsets: &[i64]) -> String {
    offsets.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

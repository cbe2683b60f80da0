//! A handler's first statement.

use leastlock_core::{ErrorClass, classify};
use sqlx::Transaction;

use super::{Progress, millis};
use crate::partition::{Epoch, TopicPartition};
use crate::sql::WorkerSql;

/// How often one call looks why it was not let in, when what it finds is that nothing is in the way.
const LOOKS: usize = 8;

/// Whether a handler may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "only a handler that has entered may write"]
pub enum Entry {
    /// It may: if its transaction commits, the record is finished, and no owner with another epoch can take over before
    /// that is decided.
    Entered,
    /// The record is finished already. Roll back.
    AlreadyDone,
    /// Another owner has taken the partition over, or no owner has fixed yet [where the group
    /// starts](Progress::anchor). Roll back.
    Fenced,
}

impl<DB: WorkerSql> Progress<DB> {
    /// Lets the handler of the record at `offset` into its transaction, which [`begin`](Self::begin) must have begun and which must
    /// have done nothing yet. (One of [`BEGIN_WRITE`](leastlock_core::Dialect::BEGIN_WRITE) will do, but on MariaDB nothing bounds
    /// how long that may be idle.)
    ///
    /// Running it again after a commit whose reply was lost resolves what happened: [`Entry::AlreadyDone`] says that it was
    /// committed, [`Entry::Entered`] that it was not. It waits for a transaction of the same record that is still open.
    ///
    /// # Errors
    /// What the database said, or that it said nothing within [`Timeouts::request`](super::Timeouts::request). The
    /// transaction is of no use then.
    ///
    /// # Cancel safety
    /// Nothing is decided before the transaction ends; drop it.
    pub async fn enter(
        &self,
        tx: &mut Transaction<'_, DB>,
        partition: &TopicPartition,
        epoch: Epoch,
        offset: i64,
    ) -> Result<Entry, sqlx::Error> {
        self.answered(self.look(tx, partition, epoch, offset)).await
    }

    /// Lets the handler of a record into its transaction whose offset is finished already: one that was [parked](crate::parked) and
    /// is released. It marks nothing, and what keeps such a record from taking effect twice is that it leaves its queue in this
    /// transaction. `false`: another owner has taken the partition over. Roll back.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    ///
    /// # Cancel safety
    /// Nothing is decided before the transaction ends; drop it.
    pub async fn hold(
        &self,
        tx: &mut Transaction<'_, DB>,
        partition: &TopicPartition,
        epoch: Epoch,
    ) -> Result<bool, sqlx::Error> {
        let hold = self.about(DB::FENCE_HOLD, partition).bind(epoch.get()).bind(millis(self.timeouts.idle));
        Ok(self.answered(hold.fetch_optional::<DB>(tx)).await?.is_some())
    }

    async fn look(
        &self,
        tx: &mut Transaction<'_, DB>,
        partition: &TopicPartition,
        epoch: Epoch,
        offset: i64,
    ) -> Result<Entry, sqlx::Error> {
        for _ in 0..LOOKS {
            let enter = self.about(DB::FENCE_ENTER, partition).bind(epoch.get()).bind(offset);
            match enter.bind(millis(self.timeouts.idle)).execute::<DB>(&mut *tx).await {
                Ok(1) => return Ok(Entry::Entered),
                Ok(_) => {}
                // The statement has locked the guard, so the epoch is right; and what it met is committed.
                Err(error) if classify::<DB>(&error) == ErrorClass::UniqueViolation => return Ok(Entry::AlreadyDone),
                Err(error) => return Err(error),
            }
            let why = self.about(DB::FENCE_WHY, partition).bind(epoch.get()).bind(offset);
            match why.fetch_optional::<DB>(&mut *tx).await? {
                Some(row) if row.int(0)? == 1 => match row.optional_int(1)? {
                    Some(1) => return Ok(Entry::AlreadyDone),
                    // No start is fixed, and waiting here would not fix it.
                    None => return Ok(Entry::Fenced),
                    // The epoch is right and the record is open, so what stood in the way is gone by now.
                    Some(_) => {}
                },
                _ => return Ok(Entry::Fenced),
            }
        }
        Err(sqlx::Error::Protocol(format!("the fence of {partition} lets nobody in, and nothing is in the way")))
    }
}

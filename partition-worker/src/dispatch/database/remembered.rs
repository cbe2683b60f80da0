//! What the database remembers of failed records.

use std::sync::Arc;

use super::{Database, failed_or_disturbed};
use crate::dispatch::memory::{Memory, Parted};
use crate::dispatch::{Job, Outcome};
use crate::on_failure::Cause;
use crate::parked::{Copied, Queue, Released};
use crate::partition::{Epoch, TopicPartition};
use crate::progress::answered;
use crate::sql::WorkerSql;

impl<DB: WorkerSql> Memory for Database<DB> {
    async fn released(&self, partition: &TopicPartition) -> Result<Vec<Released>, Outcome> {
        let within = self.progress.timeouts().request;
        answered(within, self.parking.released(partition)).await.map_err(failed_or_disturbed::<DB>)
    }

    async fn first(&self, job: &Job, queue: Queue, limit: u32) -> Result<Vec<Copied>, Outcome> {
        let first = self.parking.next(job.record.source(), queue, -1, limit);
        self.while_owned(&job.tenure, answered(self.progress.timeouts().request, first)).await
    }

    async fn took_effect(&self, job: &mut Job) -> Result<bool, Outcome> {
        let tenure = Arc::clone(&job.tenure);
        // It waits for the transaction in question, if that is still open; what is begun here rolls back.
        Ok(self.let_in(&tenure, job, None).await?.is_none())
    }

    async fn has_left(&self, job: &Job, parted: &Parted<'_>) -> Result<bool, Outcome> {
        Ok(self.let_out(&job.tenure, job.record.source(), parted).await?.is_none())
    }

    async fn open(&self, job: &Job, queue: Queue) -> Result<bool, Outcome> {
        let partition = job.record.source();
        let mut begun = self.hold(&job.tenure, partition).await?;
        let open = self.parking.open(&mut begun.tx, partition, queue);
        let is_free = self.while_owned(&job.tenure, answered(self.progress.timeouts().request, open)).await?;
        self.progress.commit(begun.tx).await.map_err(failed_or_disturbed::<DB>)?;
        Ok(is_free)
    }

    async fn park_again(&self, job: &Job, queue: Queue, offset: i64, cause: Cause, reason: &str) -> Outcome {
        let partition = job.record.source();
        let mut begun = match self.hold(&job.tenure, partition).await {
            Ok(begun) => begun,
            Err(outcome) => return outcome,
        };
        let again = self.parking.park_again(&mut begun.tx, partition, queue, (offset, job.attempts), (cause, reason));
        let parked = self.while_owned(&job.tenure, answered(self.progress.timeouts().request, again)).await;
        match parked {
            Ok(()) => self.progress.commit(begun.tx).await.map_or_else(failed_or_disturbed::<DB>, |()| Outcome::Done),
            Err(outcome) => outcome,
        }
    }

    async fn start(&self, partition: &TopicPartition, epoch: Epoch, offset: i64) -> Result<(), Outcome> {
        let started = answered(self.progress.timeouts().request, self.suspects.start(partition, epoch, offset)).await;
        match started {
            Ok(true) => Ok(()),
            Ok(false) => Err(Outcome::Fenced),
            Err(error) => Err(failed_or_disturbed::<DB>(error)),
        }
    }

    async fn alive(&self, partition: &TopicPartition, epoch: Epoch, offset: i64) {
        let alive = self.suspects.alive(partition, epoch, offset);
        if let Err(error) = answered(self.progress.timeouts().request, alive).await {
            tracing::warn!(%partition, offset, %error, "it could not be noted that the process has survived a record");
        }
    }

    async fn end(&self, partition: &TopicPartition, epoch: Epoch, suspects: u64) {
        let end = self.suspects.end(partition, epoch, suspects);
        if let Err(error) = answered(self.progress.timeouts().request, end).await {
            tracing::warn!(%partition, %error, "it could not be noted that the partition was given up in an orderly way");
        }
    }

    async fn forget_folded(&self, partition: &TopicPartition, epoch: Epoch, watermark: i64) {
        if let Err(error) = self.progress.forget_folded(partition, epoch, watermark).await {
            tracing::warn!(%partition, %error, "finished offsets could not be forgotten; the next fold does it");
        }
    }
}

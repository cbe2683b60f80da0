//! Records that take effect in the database, each in a transaction of its own.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::attempt::{self, Handled};
use super::database::{Begun, Database};
use super::memory::{Memory, Parted};
use super::seat::Seat;
use super::{Job, Outcome, Tenure, Unit};
use crate::error::Error;
use crate::handler::Handler;
use crate::partition::{Epoch, TopicPartition};
use crate::polling::Start;
use crate::progress::Fold;
use crate::record::Record;
use crate::sql::WorkerSql;

/// One transaction a record.
pub(crate) struct Records<DB: WorkerSql, H> {
    pub(crate) database: Database<DB>,
    pub(crate) handler: H,
}

impl<DB: WorkerSql, H: Handler<DB>> Unit for Records<DB, H> {
    const COMMIT_DECIDES: bool = false;

    type Seat = Seat<DB>;

    fn hand_size(&self) -> usize {
        1
    }

    async fn seal(&self, partition: &TopicPartition) -> Result<Option<Start>, Error> {
        self.database.seal(partition).await
    }

    async fn look(&self) -> Result<(), Error> {
        self.database.origin.look().await
    }

    async fn attempt(&self, hand: &mut [Job], seat: &mut Seat<DB>) -> Outcome {
        for job in hand {
            match self.try_one(job, seat).await {
                Outcome::Done => {}
                other => return other,
            }
        }
        Outcome::Done
    }

    async fn give_up(&self, job: &mut Job) -> Outcome {
        self.database.give_up(job).await
    }

    async fn handle_parted(&self, job: &mut Job, parted: &Parted<'_>) -> Outcome {
        let tenure = Arc::clone(&job.tenure);
        let begun = match self.database.let_out(&tenure, job.record.source(), parted).await {
            Ok(Some(begun)) => begun,
            Ok(None) => return Outcome::Done,
            Err(outcome) => return outcome,
        };
        match self.handle(&tenure, begun, parted.record).await {
            Ok((begun, held)) => self.database.commit(begun, held, std::slice::from_mut(job)).await,
            Err(outcome) => outcome,
        }
    }

    fn memory(&self) -> &impl Memory {
        &self.database
    }

    async fn put_by(&self, partition: &TopicPartition, epoch: Epoch, watermark: i64) -> Result<Fold, sqlx::Error> {
        self.database.progress.raise_next_offset(partition, epoch, watermark).await
    }
}

impl<DB: WorkerSql, H: Handler<DB>> Records<DB, H> {
    async fn try_one(&self, job: &mut Job, seat: &mut Seat<DB>) -> Outcome {
        let tenure = Arc::clone(&job.tenure);
        let begun = match self.database.let_in(&tenure, job, seat.take()).await {
            Ok(Some(begun)) => begun,
            Ok(None) => return Outcome::Done,
            Err(outcome) => return outcome,
        };
        match self.handle(&tenure, begun, &job.record).await {
            Ok((begun, held)) => self.database.commit_and_keep(begun, held, job, seat).await,
            Err(outcome) => outcome,
        }
    }

    /// Runs the handler in this transaction; answers it for the commit, and for how long the handler has held it.
    async fn handle<'a>(
        &self,
        tenure: &Tenure,
        mut begun: Begun<'a, DB>,
        record: &Record,
    ) -> Result<(Begun<'a, DB>, Duration), Outcome> {
        let (entered, limit) = (Instant::now(), self.database.handler_timeout);
        let handling = async { self.handler.handle(record, &mut begun.tx).await };
        match attempt::call(tenure, from_ref(record), limit, handling).await {
            Handled::Well => Ok((begun, entered.elapsed())),
            Handled::Failed(failure) => Err(self.database.judge(failure, entered.elapsed())),
            Handled::Cancelled => Err(Outcome::Cancelled),
        }
    }
}

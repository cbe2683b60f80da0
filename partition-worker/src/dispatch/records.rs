//! Records that take effect in the database, each in a transaction of its own.

use std::sync::Arc;

use tokio::time::Instant;

use super::attempt::{self, Handled};
use super::database::Database;
use super::{Job, Outcome, Unit};
use crate::error::Error;
use crate::handler::Handler;
use crate::partition::{Epoch, TopicPartition};
use crate::polling::Start;
use crate::progress::Fold;
use crate::sql::WorkerSql;

/// One transaction a record.
pub(crate) struct Records<DB: WorkerSql, H> {
    pub(crate) database: Database<DB>,
    pub(crate) handler: H,
}

impl<DB: WorkerSql, H: Handler<DB>> Unit for Records<DB, H> {
    const COMMIT_DECIDES: bool = false;

    fn hand_size(&self) -> usize {
        1
    }

    async fn seal(&self, partition: &TopicPartition) -> Result<Option<Start>, Error> {
        self.database.seal(partition).await
    }

    async fn look(&self) -> Result<(), Error> {
        self.database.origin.look().await
    }

    async fn attempt(&self, hand: &mut [Job]) -> Outcome {
        for job in hand {
            match self.try_one(job).await {
                Outcome::Done => {}
                other => return other,
            }
        }
        Outcome::Done
    }

    async fn give_up(&self, job: &mut Job) -> Outcome {
        self.database.give_up(job).await
    }

    async fn put_by(&self, partition: &TopicPartition, epoch: Epoch, watermark: i64) -> Result<Fold, sqlx::Error> {
        self.database.progress.fold(partition, epoch, watermark).await
    }
}

impl<DB: WorkerSql, H: Handler<DB>> Records<DB, H> {
    async fn try_one(&self, job: &mut Job) -> Outcome {
        let tenure = Arc::clone(&job.tenure);
        let mut begun = match self.database.let_in(&tenure, job).await {
            Ok(Some(begun)) => begun,
            Ok(None) => return Outcome::Done,
            Err(outcome) => return outcome,
        };
        let (entered, limit) = (Instant::now(), self.database.handler_timeout);
        match attempt::call(&tenure, limit, self.handler.handle(&job.record, &mut begun.tx)).await {
            Handled::Well => self.database.commit(begun, entered.elapsed(), std::slice::from_mut(job)).await,
            Handled::Failed(failure) => self.database.judge(failure, entered.elapsed()),
            Handled::Cancelled => Outcome::Cancelled,
        }
    }
}

//! Records that take effect in the database, many in one transaction.

use std::slice::from_ref;
use std::sync::Arc;

use tokio::time::Instant;

use super::attempt::{self, Handled};
use super::database::{Begun, Database};
use super::memory::{Memory, Parted};
use super::{Disturbance, Job, Outcome, Tenure, Unit};
use crate::error::Error;
use crate::handler::{BatchFailure, BatchHandler};
use crate::partition::{Epoch, TopicPartition};
use crate::polling::Start;
use crate::progress::Fold;
use crate::record::Record;
use crate::sql::WorkerSql;

/// One transaction for many records.
pub(crate) struct Batches<DB: WorkerSql, H> {
    pub(crate) database: Database<DB>,
    pub(crate) handler: H,
    pub(crate) max_batch: usize,
}

/// How often one attempt looks why the fence did not let it in, when what it finds is that nothing is in the way.
const LOOKS: usize = 8;

impl<DB: WorkerSql, H: BatchHandler<DB>> Unit for Batches<DB, H> {
    const COMMIT_DECIDES: bool = false;

    type Seat = ();

    fn hand_size(&self) -> usize {
        self.max_batch
    }

    async fn seal(&self, partition: &TopicPartition) -> Result<Option<Start>, Error> {
        self.database.seal(partition).await
    }

    async fn look(&self) -> Result<(), Error> {
        self.database.origin.look().await
    }

    async fn attempt(&self, hand: &mut [Job], (): &mut ()) -> Outcome {
        let Some(first) = hand.first() else { return Outcome::Done };
        let tenure = Arc::clone(&first.tenure);
        let mut begun = match self.let_in(&tenure, hand).await {
            Ok(Some(begun)) => begun,
            Ok(None) => return Outcome::Done,
            Err(outcome) => return outcome,
        };
        let records: Vec<Record> = open(hand).map(take_record).collect();
        let (entered, limit) = (Instant::now(), self.database.handler_timeout);
        let mut at = None;
        let handling = async {
            let handled = self.handler.handle(&records, &mut begun.tx).await;
            handled.map_err(|BatchFailure { failure, at: named }| {
                at = named;
                failure
            })
        };
        let handled = attempt::call(&tenure, &records, limit, handling).await;
        for (job, record) in open(hand).zip(records) {
            job.record = record;
        }
        match handled {
            Handled::Well => self.database.commit(begun, entered.elapsed(), hand).await,
            Handled::Cancelled => Outcome::Cancelled,
            Handled::Failed(failure) => match self.database.judge(failure, entered.elapsed()) {
                Outcome::Failed { failure, .. } => Outcome::Failed { failure, at },
                other => other,
            },
        }
    }

    async fn give_up(&self, job: &mut Job) -> Outcome {
        self.database.give_up(job).await
    }

    /// Released records come one by one, as batches of one.
    async fn handle_parted(&self, job: &mut Job, parted: &Parted<'_>) -> Outcome {
        let tenure = Arc::clone(&job.tenure);
        let mut begun = match self.database.let_out(&tenure, job.record.source(), parted).await {
            Ok(Some(begun)) => begun,
            Ok(None) => return Outcome::Done,
            Err(outcome) => return outcome,
        };
        let (entered, limit) = (Instant::now(), self.database.handler_timeout);
        let handling = async {
            let handled = self.handler.handle(from_ref(parted.record), &mut begun.tx).await;
            handled.map_err(|failed| failed.failure)
        };
        match attempt::call(&tenure, from_ref(parted.record), limit, handling).await {
            Handled::Well => self.database.commit(begun, entered.elapsed(), std::slice::from_mut(job)).await,
            Handled::Failed(failure) => self.database.judge(failure, entered.elapsed()),
            Handled::Cancelled => Outcome::Cancelled,
        }
    }

    fn memory(&self) -> &impl Memory {
        &self.database
    }

    async fn put_by(&self, partition: &TopicPartition, epoch: Epoch, watermark: i64) -> Result<Fold, sqlx::Error> {
        self.database.progress.raise_next_offset(partition, epoch, watermark).await
    }
}

impl<DB: WorkerSql, H: BatchHandler<DB>> Batches<DB, H> {
    /// Begins the transaction of a batch, and has the fence let it in without the records that are finished already; `None`:
    /// all are.
    async fn let_in<'a>(&self, tenure: &'a Tenure, hand: &mut [Job]) -> Result<Option<Begun<'a, DB>>, Outcome> {
        let (database, epoch) = (&self.database, tenure.epoch);
        for job in &mut *hand {
            job.found_done = false;
        }
        for _ in 0..LOOKS {
            let offsets: Vec<i64> = open(hand).map(|job| job.record.offset()).collect();
            let Some(partition) = open(hand).next().map(|job| job.record.source().clone()) else { return Ok(None) };
            let entering = async {
                let mut begun = database.begin(tenure, None).await?;
                if !database.progress.enter_all(&mut begun.tx, &partition, epoch, &offsets).await? {
                    return Ok(None);
                }
                for job in hand.iter().filter(|job| job.suspect.is_some()) {
                    database.suspects.cleared(&mut begun.tx, &partition, job.record.offset()).await?;
                }
                Ok(Some(begun))
            };
            if let Some(begun) = database.while_owned(tenure, entering).await? {
                return Ok(Some(begun));
            }
            let asked = database.progress.finished_among(&partition, epoch, &offsets);
            let Some(finished) = database.while_owned(tenure, asked).await? else { return Err(Outcome::Fenced) };
            for job in &mut *hand {
                job.found_done |= finished.contains(&job.record.offset());
            }
        }
        Err(Outcome::Disturbed(Disturbance::Fence))
    }
}

/// The records that are not finished yet.
fn open(hand: &mut [Job]) -> impl Iterator<Item = &mut Job> {
    hand.iter_mut().filter(|job| !job.found_done)
}

/// Takes the record out of its job without a copy, so that those of a batch lie side by side.
fn take_record(job: &mut Job) -> Record {
    let stub = job.record.stub();
    std::mem::replace(&mut job.record, stub)
}

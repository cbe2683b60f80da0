//! What differs between the ways in which records take effect.

use leastlock_core::ErrorClass;
use rdkafka::error::KafkaError;

use super::Job;
use super::memory::{Memory, Parted};
use crate::error::Error;
use crate::handler::Failure;
use crate::partition::{Epoch, TopicPartition};
use crate::polling::Start;
use crate::progress::Fold;

/// A way for records to take effect: in the database, one transaction a record or many records in one, or without a
/// database. The dispatcher is the same for all of them.
///
/// # Contract
/// - No call blocks its thread, and each may be dropped at any await: what it was about then has happened or has not.
/// - A call goes on for as long as the worker owns the partition, or to a limit of its own; nothing waits for ever.
/// - [`attempt`](Self::attempt) and [`give_up`](Self::give_up) answer [`Outcome::Done`] only once the records are finished for
///   good, as far as this way can tell.
pub(crate) trait Unit: Send + Sync + 'static {
    /// Whether what is committed to Kafka decides where the next owner starts, and is no mere hint.
    const COMMIT_DECIDES: bool;

    /// What a task keeps from one attempt to the next. To let go of it, drop it.
    type Seat: Default + Send;

    /// How many records the handler takes at once, at most.
    fn hand_size(&self) -> usize;

    /// Takes a partition over, and answers where it starts; `None`: another owner was faster. What may pass is tried again
    /// in here, for as long as it takes.
    fn seal(&self, partition: &TopicPartition) -> impl Future<Output = Result<Option<Start>, Error>> + Send;

    /// Looks whether the topics are still those that were sealed; fails if one was made anew.
    fn look(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Lets the application's handler try once: at records of one partition, in the order of their offsets, and of a
    /// lane those that come next. It marks those that it found finished before.
    fn attempt(&self, hand: &mut [Job], seat: &mut Self::Seat) -> impl Future<Output = Outcome> + Send;

    /// Finishes a record without its handler, which has failed for good. What is to be done with the record instead is done
    /// before, or in the same transaction.
    fn give_up(&self, job: &mut Job) -> impl Future<Output = Outcome> + Send;

    /// Lets the handler try a record once that leaves a released queue; `job` stands for the queue.
    fn handle_parted(&self, job: &mut Job, parted: &Parted<'_>) -> impl Future<Output = Outcome> + Send;

    /// What is remembered of failed records.
    fn memory(&self) -> &impl Memory;

    /// Puts by that everything below `watermark` is finished.
    /// Handlers are held back meanwhile; [`Memory::forget_folded`] does the rest.
    fn put_by(
        &self,
        partition: &TopicPartition,
        epoch: Epoch,
        watermark: i64,
    ) -> impl Future<Output = Result<Fold, sqlx::Error>> + Send;
}

/// How an attempt ended.
pub(crate) enum Outcome {
    /// The records are finished, by this attempt, or before it where the job says so.
    Done,
    /// Another owner has the partition.
    Fenced,
    /// The partition was lost, or the shutdown's drain is over. Rolled back.
    Cancelled,
    /// The handler failed, or the database in a way that the handler must have caused. Rolled back, or, with
    /// `commit_unknown`, perhaps committed.
    Failed {
        /// Why.
        failure: Failure,
        /// The offset of the record that it failed on, if the handler had many and said so.
        at: Option<i64>,
    },
    /// Something else than the handler failed, in a way that passes. Rolled back, or, with `commit_unknown`, perhaps
    /// committed.
    Disturbed(Disturbance),
    /// The record was to follow its key, and the key is not parked any more.
    NotParked,
    /// There is more to do about it, and others of its lane are to have their turn before.
    Later,
    /// The worker cannot go on.
    Broken(Box<Error>),
}

impl Outcome {
    /// The word for it in a metric.
    #[cfg(feature = "metrics")]
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Fenced => "fenced",
            Self::Cancelled => "cancelled",
            Self::Failed { .. } => "failed",
            Self::Disturbed(_) => "disturbed",
            Self::NotParked | Self::Later => "put off",
            Self::Broken(_) => "broken",
        }
    }

    pub(crate) fn failed(failure: impl Into<Failure>) -> Self {
        Self::Failed { failure: failure.into(), at: None }
    }
}

/// What was in the way of an attempt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Disturbance {
    /// The database.
    #[error("the database: {0:?}")]
    Database(ErrorClass),
    /// The topic for failed records.
    #[error("the topic for failed records: {0}")]
    Kafka(KafkaError),
    /// The fence, though it had no reason.
    #[error("the fence lets nobody in, and nothing is in the way")]
    Fence,
}

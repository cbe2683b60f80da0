//! What is remembered beyond this process, of failed records above all.

use super::{Job, Outcome};
use crate::on_failure::Cause;
use crate::parked::{Copied, Queue, Released};
use crate::partition::{Epoch, TopicPartition};
use crate::record::Record;

/// Remembers parked queues, suspects and what is finished, for the unit that it belongs to.
///
/// # Contract
/// As for [`Unit`](super::Unit). Without a database nothing is parked and nothing suspected, so none of this is ever asked for.
pub(crate) trait Memory: Send + Sync {
    /// The queues of a partition that operators have released.
    fn released(&self, partition: &TopicPartition) -> impl Future<Output = Result<Vec<Released>, Outcome>> + Send;

    /// The first records of a queue.
    fn first(&self, job: &Job, queue: Queue, limit: u32) -> impl Future<Output = Result<Vec<Copied>, Outcome>> + Send;

    /// Frees a queue that is empty; answers whether it is free.
    fn open(&self, job: &Job, queue: Queue) -> impl Future<Output = Result<bool, Outcome>> + Send;

    /// Parks a released queue again whose first record, at `offset`, has failed for good after so many attempts.
    fn park_again(
        &self,
        job: &Job,
        queue: Queue,
        offset: i64,
        cause: Cause,
        reason: &str,
    ) -> impl Future<Output = Outcome> + Send;

    /// Whether a record took effect whose commit got no reply; `false`: it did not, and will not.
    fn took_effect(&self, job: &mut Job) -> impl Future<Output = Result<bool, Outcome>> + Send;

    /// The same of a released record.
    fn has_left(&self, job: &Job, parted: &Parted<'_>) -> impl Future<Output = Result<bool, Outcome>> + Send;

    /// Notes that the handler of a suspect is about to start.
    fn start(
        &self,
        partition: &TopicPartition,
        epoch: Epoch,
        offset: i64,
    ) -> impl Future<Output = Result<(), Outcome>> + Send;

    /// Notes that the handler of a suspect has ended, and left the record unfinished.
    fn alive(&self, partition: &TopicPartition, epoch: Epoch, offset: i64) -> impl Future<Output = ()> + Send;

    /// Forgets the finished offsets that the last fold has put by.
    fn forget_folded(
        &self,
        partition: &TopicPartition,
        epoch: Epoch,
        watermark: i64,
    ) -> impl Future<Output = ()> + Send;

    /// Notes that the partition is given up, and so many suspects with it.
    fn end(&self, partition: &TopicPartition, epoch: Epoch, suspects: u64) -> impl Future<Output = ()> + Send;
}

/// No memory: nothing is parked, and nothing is suspected.
pub(super) struct Nothing;

impl Memory for Nothing {
    async fn released(&self, _: &TopicPartition) -> Result<Vec<Released>, Outcome> {
        Ok(Vec::new())
    }

    async fn first(&self, _: &Job, _: Queue, _: u32) -> Result<Vec<Copied>, Outcome> {
        Ok(Vec::new())
    }

    async fn open(&self, _: &Job, _: Queue) -> Result<bool, Outcome> {
        Ok(true)
    }

    async fn park_again(&self, _: &Job, _: Queue, _: i64, _: Cause, _: &str) -> Outcome {
        Outcome::Done
    }

    async fn took_effect(&self, _: &mut Job) -> Result<bool, Outcome> {
        Ok(false)
    }

    async fn has_left(&self, _: &Job, _: &Parted<'_>) -> Result<bool, Outcome> {
        Ok(false)
    }

    async fn start(&self, _: &TopicPartition, _: Epoch, _: i64) -> Result<(), Outcome> {
        Ok(())
    }

    async fn alive(&self, _: &TopicPartition, _: Epoch, _: i64) {}

    async fn forget_folded(&self, _: &TopicPartition, _: Epoch, _: i64) {}

    async fn end(&self, _: &TopicPartition, _: Epoch, _: u64) {}
}

/// A released record on its way to the handler.
pub(crate) struct Parted<'a> {
    pub(crate) queue: Queue,
    pub(crate) offset: i64,
    pub(crate) record: &'a Record,
    /// Whether it has to be cleared of a suspicion.
    pub(crate) suspect: bool,
}

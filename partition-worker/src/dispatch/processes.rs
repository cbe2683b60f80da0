//! Records that are processed without a database: what is finished is in Kafka's commit alone.

use std::slice::from_ref;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::attempt::{self, Handled};
use super::memory::{Memory, Nothing, Parted};
use super::{Failures, GroupStart, Job, Outcome, Unit};
use crate::error::Error;
use crate::handler::Process;
use crate::partition::{Epoch, TopicPartition};
use crate::polling::Start;
use crate::progress::Fold;
use crate::runs::Runs;

/// At least once a record.
pub(crate) struct Processes<H> {
    handler: H,
    origin: GroupStart,
    handler_timeout: Duration,
    /// Ownerships so far. Nobody else counts them, so they tell only this worker's own apart.
    epochs: AtomicI64,
}

impl<H> Processes<H> {
    pub(crate) fn new(handler: H, origin: GroupStart, handler_timeout: Duration) -> Self {
        Self { handler, origin, handler_timeout, epochs: AtomicI64::new(0) }
    }
}

impl<H: Process> Unit for Processes<H> {
    const COMMIT_DECIDES: bool = true;

    type Seat = ();

    fn hand_size(&self) -> usize {
        1
    }

    async fn seal(&self, partition: &TopicPartition) -> Result<Option<Start>, Error> {
        // With a topic Kafka deletes what groups have committed of it, so only one that is made anew under this worker matters.
        if let Some(id) = self.origin.topic_id(partition.topic(), None).await {
            self.origin.work_on(partition.topic(), id);
        }
        let committed = self.origin.find(partition).await;
        let epoch = Epoch::new(self.epochs.fetch_add(1, Ordering::Relaxed) + 1);
        let finished = committed.finished().unwrap_or_else(|| {
            if !committed.metadata.is_empty() {
                tracing::warn!(%partition, "the commit's metadata is not this worker's, so what is finished above is not known");
            }
            Runs::default()
        });
        tracing::debug!(%partition, %epoch, offset = committed.offset, runs = finished.runs(), "taken over");
        Ok(Some(Start { epoch, offset: committed.offset, finished, failures: Failures::default() }))
    }

    async fn look(&self) -> Result<(), Error> {
        self.origin.look().await
    }

    async fn attempt(&self, hand: &mut [Job], (): &mut ()) -> Outcome {
        for job in hand {
            let processing = async { self.handler.process(&job.record).await };
            match attempt::call(&job.tenure, from_ref(&job.record), self.handler_timeout, processing).await {
                Handled::Well => {}
                Handled::Failed(failure) => return Outcome::failed(failure),
                Handled::Cancelled => return Outcome::Cancelled,
            }
        }
        Outcome::Done
    }

    async fn give_up(&self, _: &mut Job) -> Outcome {
        Outcome::Done
    }

    /// Nothing is parked without a database.
    async fn handle_parted(&self, _: &mut Job, _: &Parted<'_>) -> Outcome {
        Outcome::Cancelled
    }

    fn memory(&self) -> &impl Memory {
        &Nothing
    }

    async fn put_by(&self, _: &TopicPartition, _: Epoch, _: i64) -> Result<Fold, sqlx::Error> {
        Ok(Fold::Unchanged)
    }
}

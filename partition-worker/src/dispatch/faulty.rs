//! A way for records to take effect that meets faults on the way, for tests.

use std::sync::Arc;

use leastlock_core::ErrorClass;

use super::memory::{Memory, Parted};
use super::{Disturbance, Job, Outcome, Unit};
use crate::error::Error;
use crate::partition::{Epoch, TopicPartition};
use crate::polling::Start;
use crate::progress::Fold;
use crate::testing::{Fault, Member};

/// What `unit` does, and then the fault that the script has next: what has happened has happened, but nobody hears of it.
pub(crate) struct Faulty<U> {
    pub(crate) unit: U,
    pub(crate) member: Arc<Member>,
}

impl<U: Unit> Unit for Faulty<U> {
    const COMMIT_DECIDES: bool = U::COMMIT_DECIDES;

    type Seat = U::Seat;

    fn hand_size(&self) -> usize {
        self.unit.hand_size()
    }

    async fn seal(&self, partition: &TopicPartition) -> Result<Option<Start>, Error> {
        self.unit.seal(partition).await
    }

    async fn look(&self) -> Result<(), Error> {
        self.unit.look().await
    }

    async fn attempt(&self, hand: &mut [Job], seat: &mut U::Seat) -> Outcome {
        let outcome = self.unit.attempt(hand, seat).await;
        let has_effect = matches!(outcome, Outcome::Done) && hand.iter().any(|job| !job.found_done);
        if !has_effect {
            return outcome;
        }
        let is_mine = |fault: Fault| match fault {
            Fault::CrashAfterCommit => true,
            Fault::LostReply => !U::COMMIT_DECIDES,
            _ => false,
        };
        match self.member.broker().take_fault(is_mine) {
            Some(Fault::CrashAfterCommit) => {
                self.member.crash();
                if let Some(job) = hand.first() {
                    let tenure = Arc::clone(&job.tenure);
                    tenure.cancel.cancelled().await;
                }
                Outcome::Cancelled
            }
            Some(_) => {
                for job in hand {
                    job.commit_unknown = true;
                }
                Outcome::Disturbed(Disturbance::Database(ErrorClass::ConnectionLost))
            }
            None => outcome,
        }
    }

    async fn give_up(&self, job: &mut Job) -> Outcome {
        self.unit.give_up(job).await
    }

    async fn handle_parted(&self, job: &mut Job, parted: &Parted<'_>) -> Outcome {
        self.unit.handle_parted(job, parted).await
    }

    fn memory(&self) -> &impl Memory {
        self.unit.memory()
    }

    async fn put_by(&self, partition: &TopicPartition, epoch: Epoch, watermark: i64) -> Result<Fold, sqlx::Error> {
        self.unit.put_by(partition, epoch, watermark).await
    }
}

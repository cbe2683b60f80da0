//! What is done about records that are not simply handled: the policies.

use std::sync::Arc;

use tokio::sync::RwLockReadGuard;

use super::memory::Memory;
use super::{Course, Dispatch, Disturbance, Job, Outcome, Unit};
use crate::dead_letter::{SendError, Stamp};
use crate::error::Error;
use crate::handler::Failure;
use crate::lanes::Lane;
use crate::on_failure::{Cause, OnFailure, told};
use crate::parked::Queue;
use crate::summary::PartitionSummary;

/// Why a record is given up, and what is done with it.
pub(super) struct GivenUp {
    pub(super) cause: Cause,
    /// The last failure, in words.
    pub(super) reason: String,
    pub(super) policy: OnFailure,
}

/// The process has died of a record too often.
#[derive(Debug, thiserror::Error)]
#[error(
    "the process died {deaths} times while it handled this record, most of them of this record alone; it is not tried again"
)]
pub(super) struct Poisonous {
    pub(super) deaths: u32,
}

impl GivenUp {
    pub(super) fn new(failure: &Failure, policy: OnFailure) -> Self {
        Self { cause: cause_of(failure), reason: told(failure.cause()), policy }
    }

    /// Where a record is counted that was given up.
    pub(super) fn counter<'a>(&self, summary: &'a mut PartitionSummary) -> &'a mut u64 {
        match self.policy {
            OnFailure::Stop | OnFailure::Skip => &mut summary.skipped,
            OnFailure::DeadLetter(_) => &mut summary.dead_lettered,
            OnFailure::ParkKey(_) => &mut summary.parked,
        }
    }

    /// The queue that a record is parked in, and whether its key is parked with it: a record without a key is parked alone, and so
    /// is one that is in no order with others.
    pub(super) fn queue(job: &Job) -> (Queue, bool) {
        match (job.record.key(), &job.lane.lane) {
            (None, _) | (_, Lane::Alone(_)) => (Queue::of_record(job.record.offset()), false),
            (Some(key), _) => (Queue::of_key(key), true),
        }
    }
}

pub(super) fn cause_of(failure: &Failure) -> Cause {
    if failure.cause().is::<Poisonous>() {
        Cause::Poison
    } else if failure.is_permanent() {
        Cause::Permanent
    } else {
        Cause::Exhausted
    }
}

impl<U: Unit> Dispatch<U> {
    /// Tries once what is to be done about the records of `hand`. One that is not simply handled is alone in its hand.
    pub(super) async fn attempt(&self, hand: &mut [Job], seat: &mut U::Seat) -> Outcome {
        let [job] = hand else {
            let _pass = self.pass_beside_others(seat).await;
            return self.unit.attempt(hand, seat).await;
        };
        loop {
            if matches!(job.course, Course::Handle)
                && let Some((queue, topic)) = job.tenure.failed.follows(&job.record)
            {
                job.course = Course::Follow { queue, topic };
            }
            if !matches!(job.course, Course::Handle) || job.suspect.is_some() {
                // There is more to do than to handle it, on other connections.
                *seat = U::Seat::default();
            }
            let outcome = match job.course {
                Course::Handle if job.suspect.is_some() => self.try_suspect(job, seat).await,
                Course::Handle => {
                    let _pass = self.pass_beside_others(seat).await;
                    self.unit.attempt(std::slice::from_mut(job), seat).await
                }
                Course::GiveUp(_) | Course::Follow { .. } => self.give_up(job).await,
                Course::Drain(_) => self.release_some(job).await,
            };
            if !matches!(outcome, Outcome::NotParked) {
                return outcome;
            }
            // Whoever emptied the queue meanwhile has freed the key.
            if let Course::Follow { queue, .. } = job.course {
                job.tenure.failed.forget(queue);
            }
            (job.course, job.copied, job.is_unhandled) = (Course::Handle, None, false);
        }
    }

    /// Lets a handler run that need not be alone. Without a database nothing is ever suspected, and there is nothing to pass.
    pub(super) async fn pass_beside_others(&self, seat: &mut U::Seat) -> Option<RwLockReadGuard<'_, ()>> {
        if U::COMMIT_DECIDES {
            return None;
        }
        if let Ok(pass) = self.alone.try_read() {
            return Some(pass);
        }
        *seat = U::Seat::default();
        Some(self.alone.read().await)
    }

    /// What is done with a record that failed for good.
    pub(super) fn policy(&self, job: &Job, failure: &Failure) -> &OnFailure {
        let policy = self.settings.policy(cause_of(failure));
        // A pattern may have subscribed to the very topic; and where so much is parked, something else is wrong.
        let loops = policy.topic() == Some(job.record.topic());
        let is_full = matches!(policy, OnFailure::ParkKey(_)) && !job.tenure.failed.has_room();
        if loops || is_full { &OnFailure::Stop } else { policy }
    }

    /// Does with a record what the policy wants, then finishes it.
    async fn give_up(&self, job: &mut Job) -> Outcome {
        match self.is_unhandled(job).await {
            Ok(true) => {}
            Ok(false) => return Outcome::Done,
            Err(outcome) => return outcome,
        }
        if job.copied.is_none()
            && let Some(outcome) = self.copy(job).await
        {
            return outcome;
        }
        self.unit.give_up(job).await
    }

    /// Whether there is anything to be given up: an attempt may have failed by a commit whose reply was lost, and a record that took
    /// effect is neither to be copied nor to be parked.
    async fn is_unhandled(&self, job: &mut Job) -> Result<bool, Outcome> {
        if !job.is_unhandled {
            if job.commit_unknown && self.unit.memory().took_effect(job).await? {
                job.course = Course::Handle;
                return Ok(false);
            }
            (job.is_unhandled, job.commit_unknown) = (true, false);
        }
        Ok(true)
    }

    /// Copies a record to where it is to go, if it is to go anywhere; answers why there is no copy.
    async fn copy(&self, job: &mut Job) -> Option<Outcome> {
        let (topic, cause, error): (&str, _, _) = match &job.course {
            Course::GiveUp(given) => (given.policy.topic()?, given.cause, given.reason.as_str()),
            Course::Follow { topic, .. } => (topic, Cause::Follows, "an earlier record of its key is parked"),
            Course::Handle | Course::Drain(_) => return None,
        };
        let stamp = Stamp { group: self.dead_letters.group(), cause, error, attempts: job.attempts };
        let sent = tokio::select! {
            biased;
            () = job.tenure.cancel.cancelled() => return Some(Outcome::Cancelled),
            sent = self.dead_letters.send(topic, &job.record, &stamp) => sent,
        };
        match sent {
            Ok(place) => {
                job.copied = Some(place);
                None
            }
            Err(SendError::Unknown(error)) => Some(Outcome::Disturbed(Disturbance::Kafka(error))),
            Err(SendError::Refused(source)) => {
                let (partition, offset) = (job.record.source().clone(), job.record.offset());
                let (topic, source) = (topic.to_owned(), Box::new(source));
                Some(Outcome::Broken(Box::new(Error::NotTaken { partition, offset, topic, source })))
            }
        }
    }

    /// Keeps in mind what has just been parked.
    pub(super) fn note_parked(job: &Job) {
        if let Course::GiveUp(given) = &job.course
            && let OnFailure::ParkKey(topic) = &given.policy
        {
            let (queue, blocks) = GivenUp::queue(job);
            job.tenure.failed.park(queue, blocks.then(|| Arc::from(topic.as_str())));
        }
    }
}

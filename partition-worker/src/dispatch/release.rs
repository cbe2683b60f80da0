//! Released queues: their records go to the handler, in order, before anything newer of their key.

use std::collections::VecDeque;
use std::sync::Arc;

use super::memory::{Memory, Parted};
use super::{Course, Dispatch, Disturbance, Job, Outcome, Unit};
use crate::handler::Failure;
use crate::on_failure::{Cause, told};
use crate::parked::{Copied, Queue, Released};
use crate::partition::TopicPartition;
use crate::record::Record;

/// Records that are handled before it is looked whether those of the key that came meanwhile get their turn, and follow.
const ROUND: usize = 64;
/// Records that are read ahead.
const AHEAD: u32 = 64;

/// A released queue on its way through the lane of its key.
pub(super) struct Draining {
    pub(super) queue: Queue,
    topic: String,
    /// The records that come next, with their copies, where the parking topic still has them.
    ahead: VecDeque<(Copied, Option<Record>)>,
    /// The first record has failed for good once more, or cannot be had.
    again: Option<(Cause, String)>,
    /// Whether all records have left, and the key is free.
    pub(super) is_free: bool,
    /// Records that have taken effect.
    pub(super) handled: u64,
    /// How many have since others of the key had their turn.
    in_this_turn: usize,
}

impl Draining {
    fn new(released: Released) -> Self {
        let Released { queue, parking_topic: topic, .. } = released;
        Self { queue, topic, ahead: VecDeque::new(), again: None, is_free: false, handled: 0, in_this_turn: 0 }
    }

    /// What is left to do is to park it again.
    pub(super) const fn is_given_up(&self) -> bool {
        self.again.is_some()
    }

    pub(super) fn give_up(&mut self, cause: Cause, failure: &Failure) {
        self.again = Some((cause, told(failure.cause())));
    }

    /// Whether records that wait for the key are to have their turn. They follow into the queue, so it is given only where that is
    /// shorter afterwards, by half of what has left it at least. Otherwise the release goes on, and they are handled once the key is
    /// free; how many wait is bounded by the limits of the partition.
    fn ends_turn(&mut self, waiting: usize) -> bool {
        let ends = waiting.saturating_mul(2) <= self.in_this_turn;
        if ends {
            self.in_this_turn = 0;
        }
        ends
    }

    fn next(&mut self, job: &mut Job) {
        self.ahead.pop_front();
        self.handled += 1;
        self.in_this_turn += 1;
        (job.attempts, job.disturbances, job.commit_unknown) = (0, 0, false);
    }
}

impl<U: Unit> Dispatch<U> {
    /// Looks for queues that operators have released, where any are parked.
    pub(crate) fn look_for_releases(&self) {
        let Some(this) = self.this.upgrade() else { return };
        let state = self.state();
        for (partition, owned) in &state.owned {
            if owned.tenure.failed.begin_looking() {
                let (this, partition, tenure) = (Arc::clone(&this), partition.clone(), Arc::clone(&owned.tenure));
                self.runtime.spawn(async move {
                    if let Ok(released) = this.unit.memory().released(&partition).await {
                        this.start_draining(&partition, tenure.epoch, released);
                    } else {
                        tracing::warn!(%partition, "released keys could not be looked for; trying again");
                    }
                    tenure.failed.end_looking();
                });
            }
        }
    }

    fn start_draining(&self, partition: &TopicPartition, epoch: crate::partition::Epoch, released: Vec<Released>) {
        let mut state = self.state();
        if !state.may_retry(partition, epoch) {
            return;
        }
        for released in released {
            let Some(owned) = state.owned.get(partition) else { return };
            if owned.tenure.failed.begin_draining(released.queue) {
                let mut record = Record::new(partition.topic(), partition.partition(), i64::MAX);
                if let Some(key) = &released.key {
                    record = record.with_key(key);
                }
                let lane = state.ordering.lane(state.null_keys, &record);
                let mut job = Job::new(record, lane, Arc::clone(&owned.tenure));
                job.course = Course::Drain(Box::new(Draining::new(released)));
                state.flow.taken(partition, job.record.weight());
                state.lanes.push(job);
            }
        }
        self.start_ready(&mut state);
    }

    /// Handles some records of a released queue.
    pub(super) async fn release_some(&self, job: &mut Job) -> Outcome {
        let Course::Drain(mut draining) = std::mem::replace(&mut job.course, Course::Handle) else {
            return Outcome::Cancelled;
        };
        let outcome = self.round(job, &mut draining).await;
        job.course = Course::Drain(draining);
        outcome
    }

    async fn round(&self, job: &mut Job, draining: &mut Draining) -> Outcome {
        loop {
            for _ in 0..ROUND {
                if let Some(outcome) = self.release_one(job, draining).await {
                    return outcome;
                }
            }
            let waiting = self.state().lanes.waiting(&job.lane);
            if draining.ends_turn(waiting) {
                return Outcome::Later;
            }
        }
    }

    /// Handles the next record of a released queue; `None`: it has left.
    async fn release_one(&self, job: &mut Job, draining: &mut Draining) -> Option<Outcome> {
        let memory = self.unit.memory();
        if !self.state().may_retry(job.record.source(), job.tenure.epoch) {
            return Some(Outcome::Cancelled);
        }
        if draining.ahead.is_empty()
            && let Err(outcome) = self.read_ahead(job, draining).await
        {
            return Some(outcome);
        }
        let Some((copied, record)) = draining.ahead.front() else {
            return Some(match memory.open(job, draining.queue).await {
                Ok(is_free) => {
                    draining.is_free = is_free;
                    Outcome::Done
                }
                Err(outcome) => outcome,
            });
        };
        let offset = copied.offset;
        if record.is_none() && draining.again.is_none() {
            let reason =
                "the parking topic does not hold the copy any more; discard the record, or keep its key parked";
            draining.again = Some((Cause::Lost, reason.to_owned()));
        }
        if let Some((cause, reason)) = &draining.again {
            // What has failed may be a commit whose reply was lost.
            if job.commit_unknown
                && let Some(record) = record
            {
                match memory.has_left(job, &Parted { queue: draining.queue, offset, record, suspect: false }).await {
                    Ok(true) => {
                        draining.again = None;
                        draining.next(job);
                        return None;
                    }
                    Ok(false) => job.commit_unknown = false,
                    Err(outcome) => return Some(outcome),
                }
            }
            return Some(memory.park_again(job, draining.queue, offset, *cause, reason).await);
        }
        let Some(record) = record else { return Some(Outcome::Cancelled) };
        match self.handle_parted(job, draining.queue, offset, record).await {
            Outcome::Done => {
                draining.next(job);
                None
            }
            other => Some(other),
        }
    }

    async fn read_ahead(&self, job: &Job, draining: &mut Draining) -> Result<(), Outcome> {
        let copies = self.unit.memory().first(job, draining.queue, AHEAD).await?;
        if copies.is_empty() {
            return Ok(());
        }
        let places = copies.iter().map(|copy| (copy.parking_partition, copy.parking_offset)).collect();
        let read = tokio::select! {
            biased;
            () = job.tenure.cancel.cancelled() => return Err(Outcome::Cancelled),
            read = self.dead_letters.read(&draining.topic, places) => read,
        };
        let records = read.map_err(|error| Outcome::Disturbed(Disturbance::Kafka(error)))?;
        // Another record may stand at the place if the topic was made anew.
        let is_it =
            |copy: &Copied, record: &Record| record.source() == job.record.source() && record.offset() == copy.offset;
        let checked = copies.into_iter().zip(records);
        draining.ahead = checked.map(|(copy, record)| (copy, record.filter(|record| is_it(&copy, record)))).collect();
        Ok(())
    }

    async fn handle_parted(&self, job: &mut Job, queue: Queue, offset: i64, record: &Record) -> Outcome {
        let (tenure, source) = (Arc::clone(&job.tenure), job.record.source().clone());
        let suspect = tenure.failed.suspect(offset);
        let parted = Parted { queue, offset, record, suspect: suspect.is_some() };
        let handler = self.unit.handle_parted(job, &parted);
        if let Some(deaths) = suspect {
            return self.with_care(&tenure, &source, offset, deaths, handler).await;
        }
        let _pass = self.pass_beside_others(&mut U::Seat::default()).await;
        handler.await
    }
}

//! Work in the lanes: start it, settle it, try it again.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::{Course, Dispatch, GivenUp, Job, Outcome, State, Unit};
use crate::error::Error;
use crate::handler::Failure;
use crate::polling::Order;
use crate::settings::OnFailure;
use crate::summary::PartitionSummary;

impl<U: Unit> Dispatch<U> {
    /// Starts a task for each piece of work that the lanes let out.
    pub(super) fn start_ready(&self, mut state: MutexGuard<'_, State>) {
        let Some(this) = self.this.upgrade() else { return };
        while let Some((_, job)) = state.lanes.start() {
            self.runtime.spawn(Arc::clone(&this).work(vec![job]));
        }
    }

    /// Does one piece of work after the other, for as long as there is some: a lane goes on without the polling thread.
    async fn work(self: Arc<Self>, mut hand: Vec<Job>) {
        while !hand.is_empty() {
            let outcome = self.attempt(&mut hand).await;
            self.settle(&mut hand, outcome);
            self.changed.notify_waiters();
        }
    }

    /// Tries once what is to be done about the records of `hand`. One that is given up is alone in its hand.
    async fn attempt(&self, hand: &mut [Job]) -> Outcome {
        match hand {
            [job] if matches!(job.course, Course::GiveUp(_)) => self.give_up(job).await,
            hand => self.unit.attempt(hand).await,
        }
    }

    /// Does with a record what the failure policy wants, then finishes it.
    async fn give_up(&self, job: &mut Job) -> Outcome {
        self.unit.give_up(job).await
    }

    /// Notes how an attempt ended, and leaves in `hand` the next piece of work for this task.
    fn settle(&self, hand: &mut Vec<Job>, outcome: Outcome) {
        let mut state = self.state();
        match outcome {
            Outcome::Done => hand.drain(..).for_each(|job| self.finished(&mut state, &job)),
            Outcome::Fenced => hand.drain(..).for_each(|job| self.fenced(&mut state, &job)),
            Outcome::Cancelled => hand.drain(..).for_each(|job| state.release(&job)),
            Outcome::Disturbed(by) => {
                for mut job in hand.drain(..) {
                    let (partition, offset) = (job.record.source(), job.record.offset());
                    tracing::warn!(%partition, offset, %by, "an attempt was disturbed; trying again");
                    let delay = self.settings.backoff.delay(job.disturbances);
                    job.disturbances = job.disturbances.saturating_add(1);
                    self.rest(&mut state, job, delay);
                }
            }
            Outcome::Failed(failure) => {
                if let Some(job) = hand.pop() {
                    hand.extend(self.failed_attempt(&mut state, job, failure));
                }
            }
        }
        if hand.is_empty() {
            hand.extend(state.lanes.start().map(|(_, job)| job));
        }
    }

    fn finished(&self, state: &mut State, job: &Job) {
        let partition = job.record.source();
        let summary = state.partitions.entry(partition.clone()).or_default();
        // After a lost reply it is this worker's own commit that the fence has found.
        let before = job.found_done && !job.commit_unknown;
        *match &job.course {
            _ if before => &mut summary.already_done,
            Course::Handle => &mut summary.processed,
            Course::GiveUp(given) => given.counter(summary),
        } += 1;
        if let Some(owned) = state.count_finished(partition, job.tenure.epoch, job.record.offset())
            && owned.fold.is_due(self.settings.fold_after)
        {
            self.start_fold(partition, owned);
        }
        state.release(job);
    }

    fn fenced(&self, state: &mut State, job: &Job) {
        let (partition, epoch) = (job.record.source(), job.tenure.epoch);
        if state.owns(partition, epoch) {
            tracing::warn!(%partition, %epoch, "another worker has taken this partition over; it is stopped here");
            state.disown(partition);
            self.order(Order::Fenced(partition.clone()));
        }
        state.release(job);
    }

    /// Notes that the handler failed on a record; answers it if there is something to be done about it at once.
    fn failed_attempt(&self, state: &mut State, mut job: Job, failure: Failure) -> Option<Job> {
        let (partition, offset) = (job.record.source(), job.record.offset());
        state.partitions.entry(partition.clone()).or_default().failures += 1;
        let delay = self.settings.backoff.delay(job.attempts);
        job.attempts = job.attempts.saturating_add(1);
        let attempts = job.attempts;
        tracing::warn!(%partition, offset, attempts, permanent = failure.is_permanent(), "a handler failed");
        // What an application puts into its errors may be a key or a payload.
        tracing::trace!(%partition, offset, %failure, "a handler failed");
        let gives_up = matches!(job.course, Course::GiveUp(_));
        if !gives_up && !failure.is_permanent() && attempts < self.settings.max_attempts {
            self.rest(state, job, delay);
            return None;
        }
        if state.owns(partition, job.tenure.epoch) {
            match &self.settings.on_failure {
                policy @ OnFailure::Skip if !gives_up => {
                    let policy = policy.clone();
                    job.course = Course::GiveUp(Box::new(GivenUp { failure, policy }));
                    return Some(job);
                }
                // Also where a record could not be given up.
                _ => {
                    let (partition, source) = (partition.clone(), failure.into_cause());
                    state.failure.get_or_insert(Error::HandlerFailed { partition, offset, attempts, source });
                    state.drain();
                }
            }
        }
        state.release(&job);
        None
    }

    /// Tries the job again after a while; its lane waits, and its place goes to another lane. Retries stop with the ownership.
    fn rest(&self, state: &mut State, job: Job, delay: Duration) {
        if !state.may_retry(job.record.source(), job.tenure.epoch) {
            return state.release(&job);
        }
        let (tenure, lane) = (Arc::clone(&job.tenure), job.lane.clone());
        let Some(this) = self.this.upgrade() else { return };
        let Some(rest) = state.lanes.rest(&lane, job) else { return };
        self.runtime.spawn(async move {
            tokio::select! {
                () = tenure.cancel.cancelled() => {}
                () = tokio::time::sleep(delay) => {}
            }
            let mut state = this.state();
            state.lanes.wake(&lane, rest);
            this.start_ready(state);
        });
    }
}

impl GivenUp {
    /// Where a record is counted that was given up.
    fn counter<'a>(&self, summary: &'a mut PartitionSummary) -> &'a mut u64 {
        tracing::trace!(failure = %self.failure, "a record is given up");
        match self.policy {
            OnFailure::Stop | OnFailure::Skip => &mut summary.skipped,
        }
    }
}

impl State {
    /// The job is over, whatever became of it.
    fn release(&mut self, job: &Job) {
        self.flow.released(job.record.source(), job.record.weight());
        self.lanes.finish(&job.lane);
    }
}

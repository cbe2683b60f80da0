//! Work in the lanes: start it, settle it, try it again.

use std::sync::Arc;
use std::time::Duration;

use super::give_up::cause_of;
use super::{Course, Dispatch, GivenUp, Job, Outcome, State, Unit};
use crate::error::Error;
use crate::handler::Failure;
use crate::lanes::LaneKey;
use crate::on_failure::OnFailure;
use crate::polling::Order;

impl<U: Unit> Dispatch<U> {
    /// Starts tasks for the hands that the lanes let out: at first as many as there are threads to run them. Each that has to
    /// wait for something starts the next. So handlers that never wait cost no task each, and those that do run all at once.
    pub(super) fn start_ready(&self, state: &mut State) {
        while state.busy < self.threads {
            let mut hand = Vec::new();
            if !self.deal(state, &mut hand) {
                return;
            }
            let Some(this) = self.this.upgrade() else { return };
            state.busy += 1;
            self.runtime.spawn(this.work(hand));
        }
    }

    /// Takes out the next hand, in the order of its offsets.
    fn deal(&self, state: &mut State, hand: &mut Vec<Job>) -> bool {
        let is_dealt = state.lanes.start(self.unit.hand_size(), hand);
        if hand.len() > 1 {
            hand.sort_unstable_by_key(|job| job.record.offset());
        }
        is_dealt
    }

    /// Does one piece of work after the other, for as long as there is some: a lane goes on without the polling thread.
    async fn work(self: Arc<Self>, mut hand: Vec<Job>) {
        let mut seat = U::Seat::default();
        while !hand.is_empty() {
            let (outcome, waited) = self.attempt_busily(&mut hand, &mut seat).await;
            self.settle(&mut hand, outcome, waited);
        }
    }

    /// An attempt counts as busy until it has to wait for the first time; answers whether it had to.
    async fn attempt_busily(&self, hand: &mut [Job], seat: &mut U::Seat) -> (Outcome, bool) {
        let mut attempt = std::pin::pin!(self.measured(hand, seat));
        let mut waited = false;
        let outcome = std::future::poll_fn(|context| {
            let polled = attempt.as_mut().poll(context);
            if polled.is_pending() && !waited {
                waited = true;
                let mut state = self.state();
                state.busy -= 1;
                self.start_ready(&mut state);
            }
            polled
        });
        (outcome.await, waited)
    }

    /// An attempt that is measured.
    async fn measured(&self, hand: &mut [Job], seat: &mut U::Seat) -> Outcome {
        #[cfg(feature = "metrics")]
        let began = std::time::Instant::now();
        let outcome = self.attempt(hand, seat).await;
        #[cfg(feature = "metrics")]
        crate::metrics::record::attempt(outcome.word(), began.elapsed());
        outcome
    }

    /// Notes how an attempt ended, and leaves in `hand` the next piece of work for this task.
    fn settle(&self, hand: &mut Vec<Job>, outcome: Outcome, waited: bool) {
        let mut state = self.state();
        state.busy += usize::from(waited);
        match outcome {
            Outcome::Done => hand.drain(..).for_each(|job| self.finished(&mut state, &job)),
            Outcome::Fenced => hand.drain(..).for_each(|job| self.fenced(&mut state, &job)),
            Outcome::Cancelled => hand.drain(..).for_each(|job| state.cancelled(&job)),
            Outcome::NotParked => hand.drain(..).for_each(|job| state.release(&job)),
            Outcome::Later => {
                for job in hand.drain(..) {
                    let lane = job.lane.clone();
                    state.lanes.push(job);
                    state.lanes.finish(&lane);
                }
            }
            Outcome::Broken(error) => {
                hand.drain(..).for_each(|job| state.release(&job));
                state.failure.get_or_insert(*error);
                state.drain();
            }
            Outcome::Disturbed(by) => {
                let mut disturbances = 0;
                for job in &mut *hand {
                    let (partition, offset) = (job.record.source(), job.record.offset());
                    tracing::warn!(%partition, offset, %by, "an attempt was disturbed; trying again");
                    disturbances = disturbances.max(job.disturbances);
                    job.disturbances = job.disturbances.saturating_add(1);
                }
                self.rest(&mut state, std::mem::take(hand), self.settings.backoff.delay(disturbances));
            }
            Outcome::Failed { failure, at } if hand.len() > 1 => {
                state.part(std::mem::take(hand), &failure, at);
            }
            Outcome::Failed { failure, .. } => {
                if let Some(job) = hand.pop() {
                    hand.extend(self.failed_attempt(&mut state, job, failure));
                }
            }
        }
        if hand.is_empty() {
            state.lanes.hand_is_over();
            if !self.deal(&mut state, hand) {
                state.busy -= 1;
            }
        }
        self.start_ready(&mut state);
        let is_notable = state.failure.is_some() || state.lanes.out() == 0;
        drop(state);
        if is_notable {
            self.changed.notify_waiters();
        }
    }

    fn finished(&self, state: &mut State, job: &Job) {
        let partition = job.record.source();
        if let Course::Drain(draining) = &job.course {
            if draining.is_free {
                job.tenure.failed.forget(draining.queue);
            }
            return state.release(job);
        }
        Self::note_parked(job);
        let summary = state.summary(partition);
        // After a lost reply it is this worker's own commit that the fence has found.
        let before = job.found_done && !job.commit_unknown;
        #[cfg(feature = "metrics")]
        crate::metrics::record::records(match &job.course {
            _ if before => "already_done",
            Course::Handle => "processed",
            Course::GiveUp(_) | Course::Follow { .. } | Course::Drain(_) => "given_up",
        });
        *match &job.course {
            _ if before => &mut summary.already_done,
            Course::Handle => &mut summary.processed,
            Course::GiveUp(given) => given.counter(summary),
            Course::Follow { .. } | Course::Drain(_) => &mut summary.parked,
        } += 1;
        if let Some(owned) = state.count_finished(partition, job.tenure.epoch, job.record.offset()) {
            if job.suspect.is_some() {
                owned.suspicion.finished();
            }
            if owned.fold.is_due(self.settings.fold_after) {
                self.start_fold(partition, owned);
            }
        }
        state.release(job);
    }

    fn fenced(&self, state: &mut State, job: &Job) {
        let (partition, epoch) = (job.record.source(), job.tenure.epoch);
        if state.owns(partition, epoch) {
            tracing::warn!(%partition, %epoch, "another worker has taken this partition over; it is stopped here");
            state.disown(partition);
            state.partitions.entry(partition.clone()).or_default().fenced += 1;
            #[cfg(feature = "metrics")]
            crate::metrics::record::rebalanced("fenced", 1);
            self.order(Order::Fenced(partition.clone()));
        }
        state.release(job);
    }

    /// Notes that the handler failed on a record; answers it if there is something to be done about it at once.
    fn failed_attempt(&self, state: &mut State, mut job: Job, failure: Failure) -> Option<Job> {
        let (partition, offset) = (job.record.source(), job.record.offset());
        state.summary(partition).failures += 1;
        let delay = self.settings.backoff.delay(job.attempts);
        job.attempts = job.attempts.saturating_add(1);
        let attempts = job.attempts;
        tracing::warn!(%partition, offset, attempts, permanent = failure.is_permanent(), "a handler failed");
        // What an application puts into its errors may be a key or a payload.
        tracing::trace!(%partition, offset, %failure, "a handler failed");
        let gives_up = match &job.course {
            Course::Handle => false,
            Course::GiveUp(_) | Course::Follow { .. } => true,
            Course::Drain(draining) => draining.is_given_up(),
        };
        if !gives_up && !failure.is_permanent() && attempts < self.settings.max_attempts {
            self.rest(state, vec![job], delay);
            return None;
        }
        if state.owns(partition, job.tenure.epoch) {
            match (self.policy(&job, &failure), &mut job.course) {
                (_, Course::Drain(draining)) if !gives_up => {
                    draining.give_up(cause_of(&failure), &failure);
                    return Some(job);
                }
                (policy, _) if !gives_up && *policy != OnFailure::Stop => {
                    tracing::warn!(%partition, offset, attempts, policy = policy.name(), "a record is given up");
                    job.course = Course::GiveUp(Box::new(GivenUp::new(&failure, policy.clone())));
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

    /// Tries the jobs of a hand again after a while; their lanes wait, and their place goes to others. Retries stop with the
    /// ownership.
    fn rest(&self, state: &mut State, hand: Vec<Job>, delay: Duration) {
        let Some(first) = hand.first() else { return };
        let tenure = Arc::clone(&first.tenure);
        if !state.may_retry(first.record.source(), tenure.epoch) {
            return hand.iter().for_each(|job| state.release(job));
        }
        let Some(this) = self.this.upgrade() else { return };
        let lanes: Vec<LaneKey> = hand.iter().map(|job| job.lane.clone()).collect();
        let rest = state.lanes.rest(hand);
        self.runtime.spawn(async move {
            tokio::select! {
                () = tenure.cancel.cancelled() => {}
                () = tokio::time::sleep(delay) => {}
            }
            let mut state = this.state();
            for lane in &lanes {
                state.lanes.wake(lane, rest);
            }
            this.start_ready(&mut state);
        });
    }
}

impl State {
    fn cancelled(&mut self, job: &Job) {
        self.partitions.entry(job.record.source().clone()).or_default().cancelled += 1;
        self.release(job);
    }

    /// The job is over, whatever became of it.
    fn release(&mut self, job: &Job) {
        if let Course::Drain(draining) = &job.course {
            job.tenure.failed.end_draining(draining.queue);
            self.summary(job.record.source()).released += draining.handled;
        }
        self.flow.released(job.record.source(), job.record.weight());
        self.lanes.finish(&job.lane);
    }

    /// A hand of many has failed, and nobody is to blame yet. So the records are tried again in smaller hands, until the one
    /// that fails is alone; if the handler has named it, it is at once.
    fn part(&mut self, mut hand: Vec<Job>, failure: &Failure, at: Option<i64>) {
        let Some(first) = hand.first() else { return };
        let (tenure, records) = (Arc::clone(&first.tenure), hand.len());
        let partition = first.record.source().clone();
        self.summary(&partition).failures += 1;
        tracing::warn!(%partition, records, named = at.is_some(), "a batch failed; it is tried in parts");
        tracing::trace!(%partition, %failure, "a batch failed");
        let is_named = at.is_some_and(|at| hand.iter().any(|job| job.record.offset() == at));
        for job in &mut hand {
            job.company = match at {
                Some(at) if is_named && job.record.offset() == at => 1,
                _ if is_named => job.company,
                _ => job.company.min(records / 2),
            };
        }
        if self.may_retry(&partition, tenure.epoch) {
            self.lanes.give_back(hand);
        } else {
            for job in &hand {
                self.release(job);
            }
        }
    }
}

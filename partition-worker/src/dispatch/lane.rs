//! Work in the lanes: start it, settle it, try it again.

use std::sync::{Arc, MutexGuard};

use super::attempt::Outcome;
use super::{Dispatch, Job, State};
use crate::error::Error;
use crate::handler::{Failure, Handler};
use crate::lanes::LaneKey;
use crate::polling::Order;
use crate::sql::WorkerSql;

impl<DB: WorkerSql, H: Handler<DB>> Dispatch<DB, H> {
    /// Starts a task for each piece of work that the lanes let out.
    pub(super) fn start_ready(&self, mut state: MutexGuard<'_, State>) {
        let Some(this) = self.this.upgrade() else { return };
        while let Some((key, job)) = state.lanes.start() {
            self.runtime.spawn(Arc::clone(&this).work(key, job));
        }
    }

    /// Does one piece of work after the other, for as long as there is some: a lane goes on without the polling thread.
    async fn work(self: Arc<Self>, key: LaneKey, job: Job) {
        let mut next = Some((key, job));
        while let Some((key, mut job)) = next {
            let outcome = self.attempt(&mut job).await;
            next = self.settle(&key, job, outcome);
            self.changed.notify_waiters();
        }
    }

    /// Notes how an attempt ended; answers the next piece of work for this task.
    fn settle(&self, key: &LaneKey, mut job: Job, outcome: Outcome) -> Option<(LaneKey, Job)> {
        let mut state = self.state();
        match outcome {
            Outcome::Committed => self.finished(&mut state, key, &job, false),
            // After a lost reply it is this worker's own commit that the fence has found.
            Outcome::AlreadyDone => self.finished(&mut state, key, &job, !job.commit_unknown),
            Outcome::Fenced => self.fenced(&mut state, key, &job),
            Outcome::Cancelled => state.release(key, &job),
            Outcome::Disturbed(class) => {
                let partition = &key.partition;
                tracing::warn!(%partition, offset = job.record.offset(), ?class, "the database failed; trying again");
                let delay = self.settings.backoff.delay(job.disturbances);
                job.disturbances = job.disturbances.saturating_add(1);
                self.rest(&mut state, key, job, delay);
            }
            Outcome::Failed(failure) => self.failed_attempt(&mut state, key, job, failure),
        }
        state.lanes.start()
    }

    fn finished(&self, state: &mut State, key: &LaneKey, job: &Job, before: bool) {
        let summary = state.partitions.entry(key.partition.clone()).or_default();
        *(if before { &mut summary.already_done } else { &mut summary.processed }) += 1;
        if let Some(owned) = state.count_finished(&key.partition, job.epoch, job.record.offset())
            && owned.fold.is_due(self.settings.fold_after)
        {
            self.start_fold(&key.partition, owned);
        }
        state.release(key, job);
    }

    fn fenced(&self, state: &mut State, key: &LaneKey, job: &Job) {
        let partition = &key.partition;
        if state.owns(partition, job.epoch) {
            tracing::warn!(%partition, epoch = %job.epoch, "another worker has taken this partition over; it is stopped here");
            state.disown(partition);
            self.order(Order::Fenced(partition.clone()));
        }
        state.release(key, job);
    }

    fn failed_attempt(&self, state: &mut State, key: &LaneKey, mut job: Job, failure: Failure) {
        let (partition, offset) = (&key.partition, job.record.offset());
        state.partitions.entry(partition.clone()).or_default().failures += 1;
        let delay = self.settings.backoff.delay(job.attempts);
        job.attempts = job.attempts.saturating_add(1);
        let attempts = job.attempts;
        tracing::warn!(%partition, offset, attempts, permanent = failure.is_permanent(), "a handler failed");
        // What an application puts into its errors may be a key or a payload.
        tracing::trace!(%partition, offset, %failure, "a handler failed");
        if !failure.is_permanent() && attempts < self.settings.max_attempts {
            return self.rest(state, key, job, delay);
        }
        if state.owns(partition, job.epoch) {
            match self.settings.on_failure.clone() {
                _ => {
                    let (partition, source) = (partition.clone(), failure.into_cause());
                    state.failure.get_or_insert(Error::HandlerFailed { partition, offset, attempts, source });
                    state.drain();
                }
            }
        }
        state.release(key, &job);
    }

    /// Tries the job again after a while; its lane waits, and its place goes to another lane. Retries stop with the ownership.
    fn rest(&self, state: &mut State, key: &LaneKey, job: Job, delay: std::time::Duration) {
        if state.draining || !state.owns(&key.partition, job.epoch) {
            return state.release(key, &job);
        }
        let cancel = job.cancel.clone();
        let Some(this) = self.this.upgrade() else { return };
        let Some(rest) = state.lanes.rest(key, job) else { return };
        let key = key.clone();
        self.runtime.spawn(async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = tokio::time::sleep(delay) => {}
            }
            let mut state = this.state();
            state.lanes.wake(&key, rest);
            this.start_ready(state);
        });
    }
}

impl State {
    /// The job is over, whatever became of it.
    fn release(&mut self, key: &LaneKey, job: &Job) {
        self.flow.released(&key.partition, job.record.weight());
        self.lanes.finish(key);
    }
}

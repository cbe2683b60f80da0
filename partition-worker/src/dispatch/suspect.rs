//! Records that a process may have died of.

use std::sync::Arc;

use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

use super::give_up::Poisonous;
use super::memory::Memory;
use super::{Dispatch, Failures, Job, Outcome, Owned, Tenure, Unit};
use crate::handler::Failure;
use crate::partition::TopicPartition;

/// Which of the records that come next are suspects.
#[derive(Debug)]
pub(super) struct Suspicion {
    /// So many records are still to come that are.
    left: u64,
    /// So many have come, and are not finished.
    open: u64,
}

/// Lets a handler run, for as long as it is kept.
enum Pass<'a> {
    #[expect(dead_code, reason = "it is kept for its drop")]
    Alone(RwLockWriteGuard<'a, ()>),
    #[expect(dead_code, reason = "it is kept for its drop")]
    BesideOthers(RwLockReadGuard<'a, ()>),
}

impl Suspicion {
    pub(super) const fn new(failures: &Failures) -> Self {
        Self { left: failures.suspects.suspects, open: 0 }
    }

    /// An unfinished record has come; `deaths` are held against it.
    pub(super) fn admit(&mut self, deaths: Option<u32>) -> Option<u32> {
        let suspect = deaths.or((self.left > 0).then_some(0));
        self.left = self.left.saturating_sub(1);
        self.open += u64::from(suspect.is_some());
        suspect
    }

    /// A suspect is finished.
    pub(super) const fn finished(&mut self) {
        self.open = self.open.saturating_sub(1);
    }
}

impl<U: Unit> Dispatch<U> {
    pub(super) async fn try_suspect(&self, job: &mut Job, seat: &mut U::Seat) -> Outcome {
        let (tenure, source, offset) = (Arc::clone(&job.tenure), job.record.source().clone(), job.record.offset());
        let deaths = job.suspect.unwrap_or(0);
        self.with_care(&tenure, &source, offset, deaths, self.unit.attempt(std::slice::from_mut(job), seat)).await
    }

    /// Runs the handler of a suspect: noted before and after, and alone in the process if a death is held against it.
    pub(super) async fn with_care(
        &self,
        tenure: &Tenure,
        partition: &TopicPartition,
        offset: i64,
        deaths: u32,
        handler: impl Future<Output = Outcome> + Send,
    ) -> Outcome {
        let Some(limit) = self.settings.poison_after() else {
            let _pass = self.pass_beside_others(&mut U::Seat::default()).await;
            return handler.await;
        };
        // The first death was seen without its culprit.
        if deaths > 0 && deaths.saturating_add(1) >= limit {
            return Outcome::failed(Failure::permanent(Poisonous { deaths: deaths.saturating_add(1) }));
        }
        let _pass = tokio::select! {
            biased;
            () = tenure.cancel.cancelled() => return Outcome::Cancelled,
            pass = self.pass(deaths > 0) => pass,
        };
        let memory = self.unit.memory();
        if let Err(outcome) = memory.start(partition, tenure.epoch, offset).await {
            return outcome;
        }
        let outcome = handler.await;
        if !matches!(outcome, Outcome::Done) {
            memory.alive(partition, tenure.epoch, offset).await;
        }
        outcome
    }

    async fn pass(&self, alone: bool) -> Pass<'_> {
        if alone { Pass::Alone(self.alone.write().await) } else { Pass::BesideOthers(self.alone.read().await) }
    }

    /// Notes that a partition is given up in an orderly way; waits for nothing.
    pub(super) fn note_end(&self, partition: TopicPartition, owned: &Owned) {
        let Some(this) = self.this.upgrade() else { return };
        let (epoch, left) = (owned.tenure.epoch, owned.suspicion.left + owned.suspicion.open);
        self.runtime.spawn(async move { this.unit.memory().end(&partition, epoch, left).await });
    }

    /// Notes it of all partitions.
    pub(crate) async fn end_all(&self) {
        let ends: Vec<_> = {
            let state = self.state();
            let end = |(partition, owned): (&TopicPartition, &Owned)| {
                (partition.clone(), owned.tenure.epoch, owned.suspicion.left + owned.suspicion.open)
            };
            state.owned.iter().map(end).collect()
        };
        for (partition, epoch, left) in ends {
            self.unit.memory().end(&partition, epoch, left).await;
        }
    }
}

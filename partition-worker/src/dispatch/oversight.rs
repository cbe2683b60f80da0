//! What is known of the handlers that run, and the end of a partition's work before it is given back.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Dispatch, Tenure, Unit};
use crate::error::Error;
use crate::health::Source;
use crate::lag::Position;
use crate::partition::TopicPartition;
use crate::polling::Oversight;
use crate::record::Record;
use crate::stall::{OnStall, Running, Ticket, Watch};

/// A handler that is watched, for as long as this lives.
pub(super) struct Watched<'a> {
    watch: &'a Mutex<Watch>,
    ticket: Ticket,
}

impl Tenure {
    /// Watches the handler of these records, which is about to be called: what has to be waited for before and after, be it the database
    /// or a suspect that runs alone, is not the handler's. The first record stands for them.
    pub(super) fn watching(&self, records: &[Record]) -> Option<Watched<'_>> {
        let first = records.first()?;
        let ticket = locked(&self.watch).start(first.source().clone(), self.epoch, first.offset(), Instant::now());
        Some(Watched { watch: &self.watch, ticket })
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let ended = locked(self.watch).end(self.ticket);
        if let Some(Running { partition, offset, since, reported: true, .. }) = ended {
            let after = since.elapsed();
            tracing::warn!(%partition, offset, ?after, "a handler that had stalled has ended");
        }
    }
}

/// No code of the application runs under this lock, and every change under it is complete once it is begun.
pub(super) fn locked(watch: &Mutex<Watch>) -> MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<U: Unit> Oversight for Dispatch<U> {
    fn start_drain(&self, partitions: &[TopicPartition]) {
        let mut state = self.state();
        for partition in partitions {
            if let Some(owned) = state.owned.get_mut(partition) {
                owned.leaving = true;
                state.forget_waiting(partition);
            }
        }
    }

    fn is_idle(&self, partitions: &[TopicPartition]) -> bool {
        let state = self.state();
        partitions.iter().all(|partition| state.lanes.is_quiet(partition))
    }

    fn look(&self, now: Instant) -> Option<Error> {
        let limit = self.settings.stall_after;
        let stalled = self.watch().newly_stalled(limit, now);
        for Running { partition, offset, .. } in &stalled {
            tracing::warn!(%partition, offset, after = ?limit, "a handler has stalled: it has run for too long and goes on");
        }
        #[cfg(feature = "metrics")]
        crate::metrics::record::stalls(stalled.len());
        match (self.settings.on_stall, stalled.into_iter().next()) {
            (OnStall::LeaveGroup, Some(Running { partition, offset, since, .. })) => {
                Some(Error::Stalled { partition, offset, running_for: now.saturating_duration_since(since) })
            }
            _ => None,
        }
    }
}

impl<U: Unit> Source for Dispatch<U> {
    fn running(&self, stall_after: Duration, now: Instant) -> (usize, Option<Running>, usize) {
        let watch = self.watch();
        (watch.running(), watch.oldest().cloned(), watch.stalled(stall_after, now).count())
    }

    fn positions(&self) -> Vec<(TopicPartition, Position)> {
        let state = self.state();
        let position = |(partition, owned): (&TopicPartition, &super::Owned)| {
            let (tracker, watermark) = (&owned.tracker, owned.tracker.watermark());
            let position = Position {
                watermark,
                delivered: tracker.delivered().max(watermark),
                unfinished: tracker.unfinished(),
                runs_ahead: tracker.finished_ahead().runs(),
            };
            (partition.clone(), position)
        };
        state.owned.iter().map(position).collect()
    }
}

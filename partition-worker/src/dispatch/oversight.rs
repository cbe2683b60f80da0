//! What is known of the handlers that run, and the end of a partition's work before it is given back.

use std::time::{Duration, Instant};

use super::{Course, Dispatch, Job, Unit};
use crate::error::Error;
use crate::health::Source;
use crate::lag::Position;
use crate::partition::TopicPartition;
use crate::polling::Oversight;
use crate::stall::{OnStall, Running, Ticket};

/// A handler that is watched, for as long as this lives.
pub(super) struct Watched<'a, U: Unit> {
    dispatch: &'a Dispatch<U>,
    ticket: Ticket,
}

impl<U: Unit> Dispatch<U> {
    /// Watches the handler of these records, which are in the order of their offsets. Those of a released queue are watched one by
    /// one.
    pub(super) fn watched(&self, hand: &[Job]) -> Option<Watched<'_, U>> {
        let first = hand.first().filter(|first| !matches!(first.course, Course::Drain(_)))?;
        Some(self.watching(first.record.source(), first.record.offset()))
    }

    /// Watches the handler of the record at this place.
    pub(super) fn watching(&self, partition: &TopicPartition, offset: i64) -> Watched<'_, U> {
        let ticket = self.watch().start(partition.clone(), offset, Instant::now());
        Watched { dispatch: self, ticket }
    }
}

impl<U: Unit> Drop for Watched<'_, U> {
    fn drop(&mut self) {
        let ended = self.dispatch.watch().end(self.ticket);
        if let Some(Running { partition, offset, since, reported: true }) = ended {
            let after = since.elapsed();
            tracing::warn!(%partition, offset, ?after, "a handler that had stalled has ended");
        }
    }
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

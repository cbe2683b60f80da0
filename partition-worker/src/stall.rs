//! Which handlers have run for too long. Pure: no I/O, and the time is told.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::partition::{Epoch, TopicPartition};

/// What becomes of a handler that runs for longer than [`stall_after`](crate::Builder::stall_after).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnStall {
    /// It is reported: in the log, in the worker's [health](crate::Health), in the metrics.
    #[default]
    Report,
    /// It is reported, and the worker gives its partitions back, leaves the group, and ends with
    /// [`Error::Stalled`](crate::Error::Stalled), so that other workers go on and whoever supervises this one starts it anew. (A static
    /// member under `group.protocol=consumer` cannot leave for good: its partitions are free after its session.)
    LeaveGroup,
}

/// A handler that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) partition: TopicPartition,
    pub(crate) epoch: Epoch,
    pub(crate) offset: i64,
    pub(crate) since: Instant,
    pub(crate) reported: bool,
}

/// The handlers that run, in the order in which they were started.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    running: BTreeMap<u64, Running>,
    started: u64,
}

/// The number of a start of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

impl Watch {
    /// A handler starts.
    pub(crate) fn start(&mut self, partition: TopicPartition, epoch: Epoch, offset: i64, now: Instant) -> Ticket {
        self.started += 1;
        self.running.insert(self.started, Running { partition, epoch, offset, since: now, reported: false });
        Ticket(self.started)
    }

    /// It has ended, one way or another.
    pub(crate) fn end(&mut self, ticket: Ticket) -> Option<Running> {
        self.running.remove(&ticket.0)
    }

    /// The one that has run for longest.
    pub(crate) fn oldest(&self) -> Option<&Running> {
        self.running.first_key_value().map(|(_, running)| running)
    }

    /// How many run.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// Those that have run for `limit` and longer, the oldest first.
    pub(crate) fn stalled(&self, limit: Duration, now: Instant) -> impl Iterator<Item = &Running> {
        self.running.values().take_while(move |running| now.saturating_duration_since(running.since) >= limit)
    }

    /// Whether one of this ownership has run for `limit` and longer.
    pub(crate) fn has_run_for(&self, partition: &TopicPartition, epoch: Epoch, limit: Duration, now: Instant) -> bool {
        self.stalled(limit, now).any(|running| running.epoch == epoch && running.partition == *partition)
    }

    /// The same, but each of them only once.
    pub(crate) fn newly_stalled(&mut self, limit: Duration, now: Instant) -> Vec<Running> {
        let stalled = |running: &&mut Running| now.saturating_duration_since(running.since) >= limit;
        let new = self.running.values_mut().take_while(stalled).filter(|running| !running.reported);
        new.map(|running| {
            running.reported = true;
            running.clone()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_mins(1);

    #[test]
    fn p11_a_handler_is_reported_once_it_has_run_for_too_long() {
        let (mut watch, began) = (Watch::default(), Instant::now());
        let partition = TopicPartition::new("t", 0);
        let (old, new) = (Epoch::new(1), Epoch::new(2));
        let slow = watch.start(partition.clone(), old, 4, began);
        let quick = watch.start(partition.clone(), new, 5, began + LIMIT / 2);
        assert_eq!(watch.newly_stalled(LIMIT, began + LIMIT / 2), []);
        let reported = watch.newly_stalled(LIMIT, began + LIMIT);
        assert_eq!(reported.iter().map(|running| running.offset).collect::<Vec<_>>(), [4]);
        assert_eq!(watch.newly_stalled(LIMIT, began + LIMIT), [], "once is enough");
        assert!(watch.has_run_for(&partition, old, LIMIT, began + LIMIT));
        assert!(!watch.has_run_for(&partition, new, LIMIT, began + LIMIT), "that of an earlier ownership is another's");
        assert!(!watch.has_run_for(&TopicPartition::new("t", 1), old, LIMIT, began + LIMIT));
        assert_eq!(watch.stalled(LIMIT, began + 2 * LIMIT).count(), 2);
        assert!(watch.end(slow).is_some() && watch.end(slow).is_none());
        assert_eq!(watch.oldest().map(|running| running.offset), Some(5));
        assert!(watch.end(quick).is_some());
        assert_eq!((watch.oldest(), watch.running()), (None, 0));
    }
}

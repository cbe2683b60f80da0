//! Which offset may be committed. Pure: no I/O, no clock.

use std::collections::BTreeSet;

use crate::partition::Epoch;
use crate::runs::{Commit, Runs};

/// Tracks the records of one partition during one assignment.
///
/// Offsets have holes: compaction removes records and transaction markers are never delivered. So the tracker knows only
/// *delivered* offsets, and adds one only after the last of them.
///
/// The *watermark* is the first delivered but unfinished offset; if all are finished, one past the last delivered; before
/// the first, where the assignment started. Everything below it is finished, so it is what may be committed, and it never
/// goes back.
///
/// ```
/// use leastlock_partition_worker::tracker::{CommitTracker, Completion};
/// use leastlock_partition_worker::Epoch;
///
/// let mut tracker = CommitTracker::new(Epoch::new(7), 100);
/// for offset in [100, 101, 105] {                      // 102 to 104 are compacted away
///     tracker.deliver(offset);
/// }
/// tracker.finish(Epoch::new(7), 105);
/// assert_eq!(tracker.watermark(), 100);
/// tracker.finish(Epoch::new(7), 100);
/// assert_eq!(tracker.watermark(), 101);
/// assert_eq!(tracker.finish(Epoch::new(6), 101), Completion::Stale);
/// tracker.finish(Epoch::new(7), 101);
/// assert_eq!(tracker.watermark(), 106);
/// ```
#[derive(Debug, Clone)]
pub struct CommitTracker {
    epoch: Epoch,
    start: i64,
    last_delivered: Option<i64>,
    unfinished: BTreeSet<i64>,
    /// Finished offsets above the watermark.
    ahead: Runs,
    /// How many were finished, ever.
    finished: u64,
}

/// What became of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a stale completion must not be counted"]
pub enum Completion {
    /// It was counted.
    Counted,
    /// It belongs to an earlier assignment, and was dropped.
    Stale,
    /// No such record is unfinished; it was dropped.
    Unknown,
}

impl CommitTracker {
    /// A tracker for an assignment that starts at offset `start`.
    #[must_use]
    pub const fn new(epoch: Epoch, start: i64) -> Self {
        Self { epoch, start, last_delivered: None, unfinished: BTreeSet::new(), ahead: Runs::new(), finished: 0 }
    }

    /// Notes a delivered record; answers whether it is new. Within an assignment offsets only rise, so a lower one has been
    /// delivered before or lies before the start.
    pub fn deliver(&mut self, offset: i64) -> bool {
        let new = offset >= self.start && self.last_delivered.is_none_or(|last| offset > last);
        if new {
            self.last_delivered = Some(offset);
            self.unfinished.insert(offset);
        }
        new
    }

    /// Notes that the record at `offset`, delivered in the assignment `epoch`, is finished.
    pub fn finish(&mut self, epoch: Epoch, offset: i64) -> Completion {
        if epoch != self.epoch {
            return Completion::Stale;
        }
        let was_first = self.unfinished.first() == Some(&offset);
        if !self.unfinished.remove(&offset) {
            return Completion::Unknown;
        }
        self.finished += 1;
        if was_first {
            self.ahead.forget_below(self.watermark());
        } else {
            self.ahead.insert(offset);
        }
        Completion::Counted
    }

    /// The offset below which everything is finished.
    #[must_use]
    pub fn watermark(&self) -> i64 {
        match (self.unfinished.first(), self.last_delivered) {
            (Some(&first), _) => first,
            (None, Some(last)) => last + 1,
            (None, None) => self.start,
        }
    }

    /// The assignment it tracks.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// One past the last delivered record, or where the assignment started.
    #[must_use]
    pub fn delivered(&self) -> i64 {
        self.last_delivered.map_or(self.start, |last| last + 1)
    }

    /// How many delivered records are unfinished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.unfinished.len()
    }

    /// The finished offsets above the watermark.
    #[must_use]
    pub const fn finished_ahead(&self) -> &Runs {
        &self.ahead
    }

    /// How many records were finished so far: a commit of the same number says nothing new.
    #[must_use]
    pub const fn finished(&self) -> u64 {
        self.finished
    }

    /// What may be committed, of this one moment, with at most `room` bytes of metadata.
    #[must_use]
    pub fn commit(&self, room: usize) -> Commit {
        Commit::new(self.watermark(), &self.ahead, room)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Op {
        Deliver { gap: i64 },
        Finish { pick: usize },
        FinishStale { pick: usize },
        Redeliver { pick: usize },
        Reassign { start: i64 },
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (1..4_i64).prop_map(|gap| Op::Deliver { gap }),
            6 => any::<usize>().prop_map(|pick| Op::Finish { pick }),
            1 => any::<usize>().prop_map(|pick| Op::FinishStale { pick }),
            1 => any::<usize>().prop_map(|pick| Op::Redeliver { pick }),
            1 => (0..50_i64).prop_map(|start| Op::Reassign { start }),
        ]
    }

    /// A list that is searched from the front each time.
    struct Oracle {
        start: i64,
        records: Vec<(i64, bool)>,
    }

    impl Oracle {
        fn watermark(&self) -> i64 {
            let unfinished = self.records.iter().find(|(_, finished)| !finished);
            let past_the_last = self.records.last().map_or(self.start, |(offset, _)| offset + 1);
            unfinished.map_or(past_the_last, |(offset, _)| *offset)
        }

        fn picked(&mut self, pick: usize) -> Option<&mut (i64, bool)> {
            let count = self.records.len();
            (count > 0).then(|| &mut self.records[pick % count])
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_naive_list(ops in prop::collection::vec(op(), 0..200)) {
            let mut epoch = Epoch::new(1);
            let mut oracle = Oracle { start: 10, records: Vec::new() };
            let mut tracker = CommitTracker::new(epoch, 10);
            for op in ops {
                let before = tracker.watermark();
                match op {
                    Op::Deliver { gap } => {
                        let offset = oracle.records.last().map_or(oracle.start - 1, |(last, _)| *last) + gap;
                        oracle.records.push((offset, false));
                        prop_assert!(tracker.deliver(offset));
                    }
                    Op::Finish { pick } => {
                        if let Some((offset, finished)) = oracle.picked(pick) {
                            let expected = if *finished { Completion::Unknown } else { Completion::Counted };
                            *finished = true;
                            prop_assert_eq!(tracker.finish(epoch, *offset), expected);
                        }
                    }
                    Op::FinishStale { pick } => {
                        let offset = oracle.picked(pick).map_or(10, |(offset, _)| *offset);
                        prop_assert_eq!(tracker.finish(Epoch::new(epoch.get() - 1), offset), Completion::Stale);
                    }
                    Op::Redeliver { pick } => {
                        if let Some((offset, _)) = oracle.picked(pick) {
                            prop_assert!(!tracker.deliver(*offset));
                        }
                    }
                    Op::Reassign { start } => {
                        epoch = Epoch::new(epoch.get() + 1);
                        oracle = Oracle { start, records: Vec::new() };
                        tracker = CommitTracker::new(epoch, start);
                        continue;
                    }
                }
                prop_assert!(tracker.watermark() >= before, "the watermark never goes back");
                prop_assert_eq!(tracker.watermark(), oracle.watermark());
                prop_assert_eq!(tracker.unfinished(), oracle.records.iter().filter(|(_, finished)| !finished).count());
                let watermark = oracle.watermark();
                let ahead = oracle.records.iter().filter(|(offset, finished)| *finished && *offset > watermark);
                prop_assert_eq!(tracker.finished_ahead().offsets().collect::<Vec<_>>(), ahead.map(|r| r.0).collect::<Vec<_>>());
            }
        }
    }
}

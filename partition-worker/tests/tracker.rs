//! The commit tracker against trackers that make the classic mistakes.

use std::collections::BTreeSet;

use leastlock_partition_worker::Epoch;
use leastlock_partition_worker::tracker::{CommitTracker, Completion};

/// What a consumer commits by.
trait Tracking {
    fn begin(epoch: i64, start: i64) -> Self;
    fn deliver(&mut self, offset: i64);
    fn finish(&mut self, epoch: i64, offset: i64);
    fn commit(&self) -> i64;
}

impl Tracking for CommitTracker {
    fn begin(epoch: i64, start: i64) -> Self {
        Self::new(Epoch::new(epoch), start)
    }

    fn deliver(&mut self, offset: i64) {
        assert!(CommitTracker::deliver(self, offset));
    }

    fn finish(&mut self, epoch: i64, offset: i64) {
        let completion = CommitTracker::finish(self, Epoch::new(epoch), offset);
        assert_ne!(completion, Completion::Unknown);
    }

    fn commit(&self) -> i64 {
        self.watermark()
    }
}

/// Commits one past the highest that is finished.
struct Highest(i64);

impl Tracking for Highest {
    fn begin(_: i64, start: i64) -> Self {
        Self(start)
    }

    fn deliver(&mut self, _: i64) {}

    fn finish(&mut self, _: i64, offset: i64) {
        self.0 = self.0.max(offset + 1);
    }

    fn commit(&self) -> i64 {
        self.0
    }
}

/// Counts up from the start for as long as the next number is finished: a hole stops it for ever.
struct Counting {
    next: i64,
    finished: BTreeSet<i64>,
}

impl Tracking for Counting {
    fn begin(_: i64, start: i64) -> Self {
        Self { next: start, finished: BTreeSet::new() }
    }

    fn deliver(&mut self, _: i64) {}

    fn finish(&mut self, _: i64, offset: i64) {
        self.finished.insert(offset);
        while self.finished.remove(&self.next) {
            self.next += 1;
        }
    }

    fn commit(&self) -> i64 {
        self.next
    }
}

/// Remembers one failing record: the last.
struct LastFailing {
    unfinished: Option<i64>,
    past_the_last: i64,
}

impl Tracking for LastFailing {
    fn begin(_: i64, start: i64) -> Self {
        Self { unfinished: None, past_the_last: start }
    }

    fn deliver(&mut self, offset: i64) {
        self.unfinished = Some(offset);
        self.past_the_last = offset + 1;
    }

    fn finish(&mut self, _: i64, offset: i64) {
        if self.unfinished == Some(offset) {
            self.unfinished = None;
        }
    }

    fn commit(&self) -> i64 {
        self.unfinished.unwrap_or(self.past_the_last)
    }
}

/// Right but for the epoch, at which it does not look.
struct WithoutEpoch(CommitTracker);

impl Tracking for WithoutEpoch {
    fn begin(epoch: i64, start: i64) -> Self {
        Self(CommitTracker::new(Epoch::new(epoch), start))
    }

    fn deliver(&mut self, offset: i64) {
        self.0.deliver(offset);
    }

    fn finish(&mut self, _: i64, offset: i64) {
        let _ = self.0.finish(self.0.epoch(), offset);
    }

    fn commit(&self) -> i64 {
        self.0.watermark()
    }
}

/// 10, 12 and 15 are delivered (the rest is compacted away), 15 and 10 finish; is 12 left to be redone?
fn keeps_the_gap<T: Tracking>() -> bool {
    let mut tracker = T::begin(1, 10);
    for offset in [10, 12, 15] {
        tracker.deliver(offset);
    }
    tracker.finish(1, 15);
    tracker.finish(1, 10);
    tracker.commit() <= 12
}

/// 10, 12 and 15 all finish; is everything committed?
fn passes_holes<T: Tracking>() -> bool {
    let mut tracker = T::begin(1, 10);
    for offset in [10, 12, 15] {
        tracker.deliver(offset);
    }
    for offset in [12, 15, 10] {
        tracker.finish(1, offset);
    }
    tracker.commit() == 16
}

/// 11 and 13 fail, the others finish; does the first of the two hold the commit?
fn stays_at_the_first_of_two_failing<T: Tracking>() -> bool {
    let mut tracker = T::begin(1, 10);
    for offset in 10..16 {
        tracker.deliver(offset);
    }
    for offset in [10, 12, 14, 15] {
        tracker.finish(1, offset);
    }
    tracker.commit() == 11
}

/// 10 is delivered, taken away, given back and delivered again; then the first handler's completion arrives.
fn ignores_an_earlier_assignment<T: Tracking>() -> bool {
    let mut earlier = T::begin(1, 10);
    earlier.deliver(10);
    let mut tracker = T::begin(2, 10);
    tracker.deliver(10);
    tracker.finish(1, 10);
    tracker.commit() == 10
}

#[test]
fn p5_a_gap_below_finished_records_is_redone() {
    assert!(keeps_the_gap::<CommitTracker>());
    assert!(passes_holes::<CommitTracker>());
    assert!(!keeps_the_gap::<Highest>(), "the double loses 12");
    assert!(!passes_holes::<Counting>(), "the double waits for 11, which never comes");
}

#[test]
fn p6_of_two_failing_records_the_first_holds_the_watermark() {
    assert!(stays_at_the_first_of_two_failing::<CommitTracker>());
    assert!(!stays_at_the_first_of_two_failing::<LastFailing>(), "the double loses both");
}

#[test]
fn p7_a_completion_from_an_earlier_assignment_is_ignored() {
    assert!(ignores_an_earlier_assignment::<CommitTracker>());
    assert!(!ignores_an_earlier_assignment::<WithoutEpoch>(), "the double commits what is not finished");
}

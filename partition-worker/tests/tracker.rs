//! The commit tracker against trackers that make the classic mistakes.

use std::collections::BTreeSet;

use leastlock_partition_worker::Epoch;
use leastlock_partition_worker::runs::{Commit, Runs};
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

/// How a commit is built while handlers finish; answers what it marks as finished from its offset on.
type Build = fn(&mut CommitTracker, &mut dyn FnMut(&mut CommitTracker)) -> Runs;

/// Offset and map of one moment.
fn one_snapshot(tracker: &mut CommitTracker, finish: &mut dyn FnMut(&mut CommitTracker)) -> Runs {
    let commit = tracker.commit(4_096);
    finish(tracker);
    commit.finished().expect("it is read as it was written")
}

/// The offset first, and the distances of the map from the watermark of a later moment.
fn two_moments(tracker: &mut CommitTracker, finish: &mut dyn FnMut(&mut CommitTracker)) -> Runs {
    let offset = tracker.watermark();
    finish(tracker);
    let base = tracker.watermark();
    tracker.finished_ahead().offsets().map(|finished| offset + (finished - base)).collect()
}

/// As the double, but with what the metadata repeats: the offset that it was written beside.
fn two_moments_told_apart(tracker: &mut CommitTracker, finish: &mut dyn FnMut(&mut CommitTracker)) -> Runs {
    let offset = tracker.watermark();
    finish(tracker);
    Commit { offset, ..tracker.commit(4_096) }.finished().unwrap_or_default()
}

/// Records 10 to 19, of which the odd ones above 12 are finished; while the commit is built, 10 to 12 finish.
fn marks_what_never_finished(build: Build) -> bool {
    let mut tracker = CommitTracker::begin(1, 10);
    (10..20).for_each(|offset| Tracking::deliver(&mut tracker, offset));
    for offset in [15, 17, 19] {
        Tracking::finish(&mut tracker, 1, offset);
    }
    let mut finish = |tracker: &mut CommitTracker| {
        for offset in [10, 11, 12] {
            Tracking::finish(tracker, 1, offset);
        }
    };
    let marked = build(&mut tracker, &mut finish);
    marked.offsets().any(|offset| ![10, 11, 12, 15, 17, 19].contains(&offset))
}

#[test]
fn p17_a_commit_is_of_one_moment() {
    assert!(!marks_what_never_finished(one_snapshot));
    assert!(marks_what_never_finished(two_moments), "the double loses records");
    assert!(!marks_what_never_finished(two_moments_told_apart), "a map beside another offset is not believed");
}

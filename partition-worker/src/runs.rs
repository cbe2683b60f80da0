//! Finished offsets as runs, and how they travel in a commit's metadata. Pure: no I/O, no clock.

use std::collections::BTreeMap;

/// A set of offsets, kept as runs of consecutive ones: a million finished offsets behind one that is not are one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs {
    ends: BTreeMap<i64, i64>,
    /// How many offsets they are.
    offsets: u64,
}

impl Runs {
    /// No offsets.
    #[must_use]
    pub const fn new() -> Self {
        Self { ends: BTreeMap::new(), offsets: 0 }
    }

    /// Adds an offset; answers whether it is new.
    pub fn insert(&mut self, offset: i64) -> bool {
        let before = self.ends.range(..=offset).next_back().map(|(start, end)| (*start, *end));
        if before.is_some_and(|(_, end)| offset < end) {
            return false;
        }
        let end = self.ends.remove(&(offset + 1)).unwrap_or(offset + 1);
        let start = before.filter(|(_, end)| *end == offset).map_or(offset, |(start, _)| start);
        self.ends.insert(start, end);
        self.offsets += 1;
        true
    }

    /// Whether an offset is among them.
    #[must_use]
    pub fn contains(&self, offset: i64) -> bool {
        self.ends.range(..=offset).next_back().is_some_and(|(_, end)| offset < *end)
    }

    /// Forgets the offsets below this one.
    pub fn forget_below(&mut self, offset: i64) {
        while let Some(first) = self.ends.first_entry().filter(|first| *first.key() < offset) {
            let (start, end) = first.remove_entry();
            self.offsets -= (end.min(offset) - start).unsigned_abs();
            if end > offset {
                self.ends.insert(offset, end);
            }
        }
    }

    /// How many runs there are.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.ends.len()
    }

    /// How many offsets there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.offsets
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The runs in order, each as its first offset and the one past its last.
    pub fn iter(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.ends.iter().map(|(start, end)| (*start, *end))
    }

    /// The offsets in order.
    pub fn offsets(&self) -> impl Iterator<Item = i64> + '_ {
        self.iter().flat_map(|(start, end)| start..end)
    }

    fn push(&mut self, start: i64, end: i64) {
        self.offsets += (end - start).unsigned_abs();
        self.ends.insert(start, end);
    }
}

impl FromIterator<i64> for Runs {
    fn from_iter<I: IntoIterator<Item = i64>>(offsets: I) -> Self {
        let mut runs = Self::new();
        for offset in offsets {
            runs.insert(offset);
        }
        runs
    }
}

/// What is committed to Kafka for a partition: an offset below which everything is finished, and what is finished above.
///
/// Both are of one moment, and the metadata repeats the offset that its runs are counted from: a map that is read beside
/// another offset is not believed, since shifted by one it would mark records as finished that never were.
///
/// ```
/// use leastlock_partition_worker::runs::{Commit, Runs};
///
/// let commit = Commit::new(100, &Runs::from_iter([101, 102, 103, 107]), 4_096);
/// assert_eq!(commit.finished(), Some(Runs::from_iter([101, 102, 103, 107])));
/// assert!(commit.metadata.len() < 20);
/// assert_eq!(Commit { offset: 101, ..commit }.finished(), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Everything below is finished.
    pub offset: i64,
    /// The finished offsets above, as far as there was room; empty if there are none.
    pub metadata: String,
    /// Finished offsets for which there was no room. After a crash they are redone.
    pub left_out: u64,
}

/// Names the format: runs as pairs of numbers, the distance from the end of the run before (at first: from the offset) and
/// the length.
const FORMAT: &str = "leastlock1:";

impl Commit {
    /// The commit of everything below `offset` and of the offsets `above`, with at most `room` bytes of metadata.
    #[must_use]
    pub fn new(offset: i64, above: &Runs, room: usize) -> Self {
        let mut commit = Self { offset, metadata: FORMAT.to_owned(), left_out: 0 };
        write_number(&mut commit.metadata, offset);
        let (bare, mut last) = (commit.metadata.len(), offset);
        let mut is_full = bare > room;
        for (start, end) in above.iter() {
            let written = commit.metadata.len();
            if !is_full {
                write_number(&mut commit.metadata, start - last);
                write_number(&mut commit.metadata, end - start);
                is_full = commit.metadata.len() > room;
            }
            if is_full {
                commit.metadata.truncate(written);
                commit.left_out += (end - start).unsigned_abs();
            }
            last = end;
        }
        if commit.metadata.len() == bare {
            commit.metadata.clear();
        }
        commit
    }

    /// Keeps at most `room` bytes of metadata.
    pub fn cut(&mut self, room: usize) {
        if self.metadata.len() > room {
            let before = self.left_out;
            *self = Self::new(self.offset, &self.finished().unwrap_or_default(), room);
            self.left_out += before;
        }
    }

    /// What a group has committed, as Kafka answers it.
    #[must_use]
    pub fn read(offset: i64, metadata: impl Into<String>) -> Self {
        Self { offset, metadata: metadata.into(), left_out: 0 }
    }

    /// The finished offsets above [`offset`](Self::offset); `None` if the metadata is not of this crate or was written beside
    /// another offset, as when an operator has reset the group.
    #[must_use]
    pub fn finished(&self) -> Option<Runs> {
        let mut digits = self.metadata.strip_prefix(FORMAT)?.bytes().peekable();
        if read_number(&mut digits)? != self.offset {
            return None;
        }
        let (mut runs, mut last) = (Runs::new(), self.offset);
        while digits.peek().is_some() {
            let distance = read_number(&mut digits)?;
            let length = read_number(&mut digits)?;
            let start = last.checked_add(distance)?;
            let end = start.checked_add(length)?;
            // The offset itself is not finished, and runs do not touch.
            if distance < 1 || length < 1 {
                return None;
            }
            runs.push(start, end);
            last = end;
        }
        Some(runs)
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Each digit carries five bits, the lowest first; the sixth says that another follows, as in a source map's VLQ.
const BITS: u32 = 5;
const MORE: u8 = 1 << BITS;

fn write_number(text: &mut String, number: i64) {
    let mut rest = number.unsigned_abs();
    loop {
        let low = u8::try_from(rest % u64::from(MORE)).unwrap_or_default();
        rest >>= BITS;
        let digit = if rest == 0 { low } else { low | MORE };
        text.push(char::from(DIGITS[usize::from(digit)]));
        if rest == 0 {
            return;
        }
    }
}

fn read_number(digits: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut number = 0_i64;
    let mut place = 0;
    loop {
        let read = digits.next()?;
        let digit = u8::try_from(DIGITS.iter().position(|digit| *digit == read)?).ok()?;
        let part = i64::from(digit & (MORE - 1));
        // The highest offset has 63 bits.
        if place > 60 || part.leading_zeros() <= place {
            return None;
        }
        number |= part << place;
        if digit & MORE == 0 {
            return Some(number);
        }
        place += BITS;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_that_meet_become_one() {
        let mut runs = Runs::from_iter([1, 3]);
        assert_eq!(runs.runs(), 2);
        assert!(runs.insert(2));
        assert!(!runs.insert(2));
        assert_eq!(runs.iter().collect::<Vec<_>>(), [(1, 4)]);
        runs.forget_below(3);
        assert_eq!(runs.offsets().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn the_ends_of_the_range_survive() {
        let commit = Commit::new(i64::MAX - 9, &Runs::from_iter([i64::MAX - 1]), 100);
        assert_eq!(commit.finished(), Some(Runs::from_iter([i64::MAX - 1])));
    }

    #[test]
    fn what_is_not_a_map_is_none() {
        for metadata in ["", "leastlock1:", "leastlock1:K", "somebody's", "leastlock1:KA", "leastlock1:KBBAB"] {
            let expected = (metadata == "leastlock1:K").then(Runs::new);
            assert_eq!(Commit::read(10, metadata).finished(), expected, "{metadata}");
        }
        assert_eq!(Commit::read(10, "leastlock1:________________").finished(), None, "beyond 63 bits");
    }

    proptest! {
        #[test]
        fn runs_agree_with_a_set(offsets in prop::collection::vec(0..60_i64, 0..80), below in 0..60_i64) {
            let mut runs = Runs::new();
            let mut set = BTreeSet::new();
            for offset in offsets {
                prop_assert_eq!(runs.insert(offset), set.insert(offset));
            }
            prop_assert!((0..60).all(|offset| runs.contains(offset) == set.contains(&offset)));
            prop_assert_eq!(runs.count(), set.len() as u64);
            runs.forget_below(below);
            let left = set.split_off(&below);
            prop_assert_eq!(runs.count(), left.len() as u64);
            prop_assert_eq!(runs.offsets().collect::<BTreeSet<_>>(), left);
            prop_assert!(runs.iter().zip(runs.iter().skip(1)).all(|((_, end), (start, _))| end < start), "runs touch");
        }

        #[test]
        fn a_map_is_read_as_written_or_is_the_lower_part_of_it(
            base in 0..=i64::MAX >> 1,
            above in prop::collection::btree_set(1..100_000_i64, 0..300),
            room in 0..2_000_usize,
        ) {
            let above: Runs = above.into_iter().map(|distance| base + distance).collect();
            let commit = Commit::new(base, &above, room);
            prop_assert!(commit.metadata.len() <= room || commit.metadata.is_empty());
            let read = commit.finished().unwrap_or_default();
            let written = read.offsets().count();
            prop_assert!(read.offsets().eq(above.offsets().take(written)), "the lowest are kept, and no other");
            prop_assert_eq!(written as u64 + commit.left_out, above.offsets().count() as u64);
            let mut cut = Commit::new(base, &above, usize::MAX);
            cut.cut(room);
            prop_assert_eq!(cut, commit);
        }

        #[test]
        fn any_text_is_read_without_a_panic(offset in any::<i64>(), text in "leastlock1:[A-Za-z0-9_-]{0,40}|.{0,40}") {
            let _ = Commit::read(offset, text).finished();
        }
    }
}

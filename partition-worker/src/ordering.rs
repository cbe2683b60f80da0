//! What keeps records in order. Pure: no I/O, no clock.

use crate::lanes::{Lane, LaneKey};
use crate::record::Record;

/// Which records of a partition are worked on one after the other, in the order of their offsets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ordering {
    /// Those of one key; different keys at the same time.
    #[default]
    Key,
    /// All of them: a partition is worked on by one handler at a time.
    Partition,
    /// None: any records at the same time, those of one key too.
    Unordered,
}

/// What records without a key are, with [`Ordering::Key`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NullKeys {
    /// Records that have something in common: those of a partition are in order.
    #[default]
    OneLane,
    /// Records that have nothing to do with each other.
    Unordered,
}

impl Ordering {
    /// The lane of a record.
    #[must_use]
    pub fn lane(self, null_keys: NullKeys, record: &Record) -> LaneKey {
        let lane = match (self, record.shared_key(), null_keys) {
            (Self::Key, Some(key), _) => Lane::Key(key),
            (Self::Key, None, NullKeys::OneLane) | (Self::Partition, ..) => Lane::Shared,
            (Self::Key, None, NullKeys::Unordered) | (Self::Unordered, ..) => Lane::Alone(record.offset()),
        };
        LaneKey { partition: record.source().clone(), lane }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::lanes::{Laned, Lanes};

    struct Piece(LaneKey, Record);

    impl Laned for Piece {
        fn lane(&self) -> &LaneKey {
            &self.0
        }

        fn company(&self) -> usize {
            usize::MAX
        }
    }

    /// What is in order with what, told without lanes.
    fn is_ordered(ordering: Ordering, null_keys: NullKeys, one: &Record, other: &Record) -> bool {
        one.source() == other.source()
            && match ordering {
                Ordering::Partition => true,
                Ordering::Unordered => one.offset() == other.offset(),
                Ordering::Key if one.key().is_none() && null_keys == NullKeys::Unordered => {
                    one.offset() == other.offset()
                }
                Ordering::Key => one.key() == other.key(),
            }
    }

    fn settings() -> impl Strategy<Value = (Ordering, NullKeys)> {
        let orderings = vec![Ordering::Key, Ordering::Partition, Ordering::Unordered];
        (prop::sample::select(orderings), prop::sample::select(vec![NullKeys::OneLane, NullKeys::Unordered]))
    }

    proptest! {
        #[test]
        fn what_is_in_order_is_worked_on_one_after_the_other_and_the_rest_at_the_same_time(
            (ordering, null_keys) in settings(),
            keys in prop::collection::vec((0..2_i32, prop::option::of(0..3_u8)), 1..60),
            picks in prop::collection::vec(any::<usize>(), 0..100),
        ) {
            let mut lanes = Lanes::new(usize::MAX);
            let mut waiting = Vec::new();
            for (offset, (partition, key)) in (0..).zip(keys) {
                let record = Record::new("t", partition, offset);
                let record = match key { Some(key) => record.with_key([key]), None => record };
                waiting.push(record.clone());
                lanes.push(Piece(ordering.lane(null_keys, &record), record));
            }
            let mut out: Vec<Piece> = Vec::new();
            let mut picks = picks.into_iter();
            loop {
                let mut hand = Vec::new();
                while lanes.start(1, &mut hand) {}
                for Piece(_, record) in &hand {
                    let before = waiting.iter().find(|other| is_ordered(ordering, null_keys, record, other));
                    prop_assert_eq!(before, Some(record), "an earlier one was passed over");
                    let beside = out.iter().find(|Piece(_, other)| is_ordered(ordering, null_keys, record, other));
                    prop_assert!(beside.is_none(), "two that are in order at the same time");
                    waiting.retain(|other| other.offset() != record.offset());
                }
                out.extend(hand);
                let held = waiting.iter().all(|record| {
                    out.iter().any(|Piece(_, other)| is_ordered(ordering, null_keys, record, other))
                });
                prop_assert!(held, "one waits for nothing");
                if out.is_empty() {
                    break;
                }
                let index = picks.next().unwrap_or(0) % out.len();
                lanes.finish(&out.swap_remove(index).0);
                lanes.hand_is_over();
            }
            prop_assert!(waiting.is_empty());
        }
    }

    #[test]
    fn records_of_different_partitions_are_never_in_order() {
        let lanes: HashMap<_, _> = [0, 1]
            .map(|partition| (Ordering::Partition.lane(NullKeys::OneLane, &Record::new("t", partition, 0)), partition))
            .into();
        assert_eq!(lanes.len(), 2);
    }
}

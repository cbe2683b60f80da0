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

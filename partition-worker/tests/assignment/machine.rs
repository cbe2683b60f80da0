//! What is under test, and what may happen to it.

use leastlock_partition_worker::assignment::{Assignment, Call, Grant, Phase};
use leastlock_partition_worker::lanes::{Lane, LaneKey, Laned};
use leastlock_partition_worker::{Epoch, TopicPartition};
use proptest::prelude::*;

pub(crate) const PARTITIONS: i32 = 3;

/// What is under test.
pub(crate) trait Machine {
    /// Whether the lanes of a partition go with its ownership, running handlers or not.
    const FORGETS_GHOSTS: bool = false;
    fn begin() -> Self;
    fn assigned(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>>;
    fn sealed(&mut self, grant: Grant, partition: &TopicPartition, answer: Option<i64>) -> Vec<Call<i64>>;
    fn revoked(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>>;
    fn drained(&mut self) -> Vec<Call<i64>>;
    fn lost(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>>;
    fn phase(&self, partition: &TopicPartition) -> Phase;
}

impl Machine for Assignment<i64> {
    fn begin() -> Self {
        Self::new()
    }

    fn assigned(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        Self::assigned(self, partitions)
    }

    fn sealed(&mut self, grant: Grant, partition: &TopicPartition, answer: Option<i64>) -> Vec<Call<i64>> {
        Self::sealed(self, grant, partition, answer)
    }

    fn revoked(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        Self::revoked(self, partitions, true)
    }

    fn drained(&mut self) -> Vec<Call<i64>> {
        Self::drained(self)
    }

    fn lost(&mut self, partitions: &[TopicPartition]) -> Vec<Call<i64>> {
        Self::lost(self, partitions)
    }

    fn phase(&self, partition: &TopicPartition) -> Phase {
        Self::phase(self, partition)
    }
}

/// Whether everything is taken back before anything is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Eager,
    Cooperative,
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// Kafka gives partitions that this worker does not have; the mask chooses.
    Give {
        mask: u8,
    },
    /// Kafka takes partitions back, as the protocol has it.
    TakeBack {
        mask: u8,
    },
    /// Kafka takes back and gives the same again, whatever runs.
    Return {
        mask: u8,
    },
    /// The session is over.
    Lose,
    /// A seal ends; now and then another owner was faster.
    Seal {
        pick: usize,
        fenced: bool,
    },
    /// An answer of a seal that was stopped comes all the same.
    LateSeal {
        pick: usize,
    },
    Deliver {
        partition: i32,
    },
    Start,
    Finish {
        pick: usize,
    },
    /// The drain's time is up, whatever runs.
    TimeUp,
    /// While a partition is not this worker's, another finishes some of it.
    Others {
        partition: i32,
        records: i64,
    },
    /// The process is gone, and comes back as the same static member: it is given the same, and nobody had it in between.
    Restart,
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => (1..8_u8).prop_map(|mask| Op::Give { mask }),
        2 => (1..8_u8).prop_map(|mask| Op::TakeBack { mask }),
        1 => (1..8_u8).prop_map(|mask| Op::Return { mask }),
        1 => Just(Op::Lose),
        6 => (any::<usize>(), prop::bool::weighted(0.1)).prop_map(|(pick, fenced)| Op::Seal { pick, fenced }),
        2 => any::<usize>().prop_map(|pick| Op::LateSeal { pick }),
        6 => (0..PARTITIONS).prop_map(|partition| Op::Deliver { partition }),
        6 => Just(Op::Start),
        4 => any::<usize>().prop_map(|pick| Op::Finish { pick }),
        2 => Just(Op::TimeUp),
        1 => (0..PARTITIONS, 1..3_i64).prop_map(|(partition, records)| Op::Others { partition, records }),
        1 => Just(Op::Restart),
    ];
    prop::collection::vec(op, 0..80)
}

/// Whether the mask names the partition.
pub(crate) fn chosen(mask: u8, partition: &TopicPartition) -> bool {
    mask & (1 << partition.partition()) != 0
}

/// The lane of a record: there are two keys, which take turns.
pub(crate) fn lane(partition: &TopicPartition, offset: i64) -> LaneKey {
    LaneKey { partition: partition.clone(), lane: Lane::Key((offset % 2).to_be_bytes().as_slice().into()) }
}

/// A record on its way.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) lane: LaneKey,
    pub(crate) offset: i64,
    pub(crate) epoch: Epoch,
}

impl Laned for Job {
    fn lane(&self) -> &LaneKey {
        &self.lane
    }

    fn company(&self) -> usize {
        1
    }
}

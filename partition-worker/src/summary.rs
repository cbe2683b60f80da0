//! What a worker did.

use std::collections::BTreeMap;

use crate::partition::TopicPartition;

/// What a worker did, partition by partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Each partition that it ever owned.
    pub partitions: BTreeMap<TopicPartition, PartitionSummary>,
    /// Whether every handler that ran when the shutdown began has finished by itself.
    pub drained: bool,
}

impl Summary {
    /// Records whose effect this worker committed.
    #[must_use]
    pub fn processed(&self) -> u64 {
        self.partitions.values().map(|partition| partition.processed).sum()
    }

    /// Records that it was given again and found finished.
    #[must_use]
    pub fn already_done(&self) -> u64 {
        self.partitions.values().map(|partition| partition.already_done).sum()
    }
}

/// What a worker did with one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionSummary {
    /// Records whose effect it committed.
    pub processed: u64,
    /// Records that it was given again and found finished.
    pub already_done: u64,
    /// Records that were finished without an effect, since their handler had failed for good.
    pub skipped: u64,
    /// Records that were finished once the broker had acknowledged a copy in the dead-letter topic.
    pub dead_lettered: u64,
    /// Records that were finished once the broker had acknowledged a copy in the parking topic: those that failed, and those that
    /// followed one of their key.
    pub parked: u64,
    /// Records of released keys whose effect it committed.
    pub released: u64,
    /// Finished offsets above the watermark for which the last commit's metadata had no room (without a database only). After
    /// a crash they would have been processed again.
    pub left_out: u64,
    /// Attempts that ended in a handler's failure.
    pub failures: u64,
    /// Attempts that were cancelled: the partition was lost, or the shutdown's drain was over.
    pub cancelled: u64,
    /// How often the partition was taken over by this worker.
    pub taken_over: u32,
    /// How often it was given back in order.
    pub given_back: u32,
    /// How often it was lost.
    pub lost: u32,
    /// How often another worker had sealed it while Kafka still left it to this one.
    pub fenced: u32,
    /// Whether every handler of it that ran when the shutdown began has finished by itself.
    pub drained: bool,
    /// The offset below which everything is finished, as it stood when the worker last owned the partition.
    pub watermark: Option<i64>,
    /// Records delivered and not finished when the worker last owned the partition. They will be delivered again.
    pub unfinished: usize,
}

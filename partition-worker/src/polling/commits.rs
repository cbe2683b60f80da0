//! Telling Kafka what is finished.

use std::time::{Duration, Instant};

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::poller::Poller;
use crate::partition::TopicPartition;
use crate::runs::Commit;

/// Every so many commits, what has not changed is committed as well, in case it never arrived.
const ALL_EVERY: u32 = 10;
/// A commit that failed is made again after so long at the latest.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// When to commit next, and what the broker has taken so far.
pub(super) struct Commits {
    every: Duration,
    due: Instant,
    count: u32,
    /// The size of the largest metadata that the broker has taken.
    metadata_taken: usize,
}

impl Commits {
    pub(super) fn new(every: Duration) -> Self {
        Self { every, due: Instant::now() + every, count: 0, metadata_taken: 0 }
    }
}

impl Poller {
    /// Commits from time to time. librdkafka sends explicit commits in order, and answers each through the context. A group that is
    /// between two generations refuses them, which stops nothing: they are made again, or it is the next owner's turn.
    pub(super) fn commit_if_due(&mut self) {
        let now = Instant::now();
        if self.consumer.context().commit_failed() {
            // Of several in flight it is not told which, so all is said again; what is too old by then is overtaken.
            self.again_soon();
        }
        if now < self.commits.due {
            return;
        }
        self.commits.due = now + self.commits.every;
        self.commits.count = self.commits.count.wrapping_add(1);
        if self.commits.count.is_multiple_of(ALL_EVERY) {
            self.control.commit_again();
        }
        let commits = self.control.commits();
        self.commit(commits, CommitMode::Async);
    }

    pub(super) fn commit(&mut self, mut commits: Vec<(TopicPartition, Commit)>, mode: CommitMode) {
        self.try_metadata(&mut commits);
        if commits.is_empty() {
            return;
        }
        if let Err(error) = self.consumer.commit(&commit_list(&commits), mode) {
            tracing::warn!(%error, "offsets were not committed");
            self.again_soon();
        }
    }

    /// Has everything committed again.
    fn again_soon(&mut self) {
        self.control.commit_again();
        self.commits.due = self.commits.due.min(Instant::now() + AGAIN_AFTER);
    }

    /// A broker that takes no metadata of some size refuses the offset with it. So what is larger than all before is
    /// committed alone, its answer is waited for, and what was refused is cut to half.
    fn try_metadata(&mut self, commits: &mut [(TopicPartition, Commit)]) {
        loop {
            let taken = self.commits.metadata_taken;
            let largest = commits.iter().max_by_key(|(_, commit)| commit.metadata.len());
            let Some(largest) = largest.filter(|(_, commit)| commit.metadata.len() > taken) else { return };
            let size = largest.1.metadata.len();
            match self.consumer.commit(&commit_list(std::slice::from_ref(largest)), CommitMode::Sync) {
                Ok(()) => self.commits.metadata_taken = size,
                Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::OffsetMetadataTooLarge)) => {
                    let room = taken.max(size / 2);
                    tracing::warn!(
                        size,
                        room,
                        "the broker takes no metadata of this size (offset.metadata.max.bytes); it is cut"
                    );
                    self.control.metadata_refused(room);
                    for (_, commit) in commits.iter_mut() {
                        commit.cut(room);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "an offset was not committed");
                    return self.again_soon();
                }
            }
        }
    }

    /// How the last commit before a partition is given up is made.
    pub(super) const fn last_commit(&self) -> CommitMode {
        if self.setup.revoke_timeout.is_some() { CommitMode::Sync } else { CommitMode::Async }
    }
}

fn commit_list(commits: &[(TopicPartition, Commit)]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(commits.len());
    for (partition, commit) in commits {
        let mut element = list.add_partition(partition.topic(), partition.partition());
        if let Err(error) = element.set_offset(Offset::Offset(commit.offset)) {
            tracing::debug!(%partition, %error, "an offset cannot be committed");
        }
        if !commit.metadata.is_empty() {
            element.set_metadata(&commit.metadata);
        }
    }
    list
}

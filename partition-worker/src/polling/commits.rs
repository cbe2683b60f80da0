//! Telling Kafka what is finished.

use std::time::{Duration, Instant};

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::committer::Committer;
use super::poller::Poller;
use crate::partition::TopicPartition;
use crate::runs::Commit;

/// Every so many commits, what has not changed is committed as well, in case it never arrived.
const ALL_EVERY: u32 = 10;
/// A commit that failed is made again after so long at the latest.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How long the answer to the last commit is waited for before partitions are given up: well below a session.
const LAST_ANSWER: Duration = Duration::from_secs(5);

/// How long that to an earlier one is, where commits are hints.
const HINT_ANSWER: Duration = Duration::from_secs(1);

/// When to commit next, and what the broker has taken so far.
pub(super) struct Commits {
    every: Duration,
    due: Instant,
    count: u32,
    /// The size of the largest metadata that the broker has taken.
    metadata_taken: usize,
    committer: Committer,
    /// What is being committed.
    round: Option<Round>,
}

/// Commits of one moment, and how far they have come.
struct Round {
    commits: Vec<(TopicPartition, Commit)>,
    /// The size of the metadata of one that was sent alone; `None`: all were sent.
    alone: Option<usize>,
    until: Option<Instant>,
}

impl Commits {
    pub(super) fn new(every: Duration, committer: Committer) -> Self {
        Self { every, due: Instant::now() + every, count: 0, metadata_taken: 0, committer, round: None }
    }

    /// Sends the next part of a round. A broker that takes no metadata of some size refuses the offset with it. So what is larger
    /// than all before is committed alone.
    fn send(&mut self, commits: Vec<(TopicPartition, Commit)>, until: Option<Instant>) {
        if commits.is_empty() {
            return;
        }
        let sizes = commits.iter().map(|(_, commit)| commit.metadata.len()).enumerate();
        let largest = sizes.max_by_key(|(_, size)| *size).filter(|(_, size)| *size > self.metadata_taken);
        let next = largest.map_or(&*commits, |(place, _)| std::slice::from_ref(&commits[place]));
        self.committer.commit(commit_list(next), until);
        self.round = Some(Round { commits, alone: largest.map(|(_, size)| size), until });
    }

    fn send_all(&mut self, commits: Vec<(TopicPartition, Commit)>, until: Option<Instant>) {
        self.committer.commit(commit_list(&commits), until);
        self.round = Some(Round { commits, alone: None, until });
    }

    /// What has not been sent yet of these partitions is not to be.
    pub(super) fn forget(&mut self, partitions: &[TopicPartition]) {
        if let Some(round) = &mut self.round {
            round.commits.retain(|(partition, _)| !partitions.contains(partition));
        }
    }
}

impl Poller {
    /// Commits from time to time, and waits for no answer. A group that is between two generations refuses commits, which stops
    /// nothing: they are made again, or it is the next owner's turn.
    pub(super) fn commit_if_due(&mut self) {
        if self.commits.round.is_some()
            && let Some(answer) = self.commits.committer.answer(Duration::ZERO)
        {
            self.go_on(answer);
        }
        let now = Instant::now();
        if self.commits.round.is_some() || now < self.commits.due {
            return;
        }
        self.commits.due = now + self.commits.every;
        self.commits.count = self.commits.count.wrapping_add(1);
        if self.commits.count.is_multiple_of(ALL_EVERY) {
            self.control.commit_again();
        }
        self.commits.send(self.control.commits(), None);
    }

    /// Goes on with a round, after an answer.
    fn go_on(&mut self, answer: KafkaResult<()>) {
        let Some(Round { mut commits, alone, until }) = self.commits.round.take() else { return };
        match (answer, alone) {
            (Ok(()), None) => {}
            (Ok(()), Some(size)) => {
                self.commits.metadata_taken = size;
                self.commits.send(commits, until);
            }
            (Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::OffsetMetadataTooLarge)), Some(size)) => {
                let room = self.commits.metadata_taken.max(size / 2);
                tracing::warn!(
                    size,
                    room,
                    "the broker takes no metadata of this size (offset.metadata.max.bytes); it is cut"
                );
                self.control.metadata_refused(room);
                for (_, commit) in &mut commits {
                    commit.cut(room);
                }
                self.commits.send(commits, until);
            }
            (Err(error), alone) => {
                // The group is between two generations, its coordinator is on the move, or it knows this worker no more.
                tracing::debug!(%error, partitions = commits.len(), "offsets were not committed");
                #[cfg(feature = "metrics")]
                crate::metrics::record::commit_failed();
                self.control.commit_again();
                self.commits.due = self.commits.due.min(Instant::now() + AGAIN_AFTER);
                if alone.is_some() {
                    // The others may have more luck.
                    self.commits.send_all(commits, until);
                }
            }
        }
    }

    /// Commits before partitions are given up. Where nothing else tells the next owner what is finished, the answer is waited for.
    pub(super) fn commit_last(&mut self, commits: Vec<(TopicPartition, Commit)>) {
        if commits.is_empty() {
            return;
        }
        if self.setup.revoke_timeout.is_none() {
            // It is a hint, and still better a late one than an old one.
            self.wait_for_round(Instant::now() + HINT_ANSWER);
            if let Err(error) = self.consumer.commit(&commit_list(&commits), CommitMode::Async) {
                tracing::warn!(%error, "offsets were not committed");
            }
            return;
        }
        let deadline = Instant::now() + LAST_ANSWER;
        // What was committed before must not arrive later.
        if self.wait_for_round(deadline) {
            self.commits.send(commits, Some(deadline));
            if self.wait_for_round(deadline) {
                return;
            }
        }
        self.commits.round = None;
        tracing::warn!("the last offsets before partitions are given up were not answered in time");
    }

    /// Waits until all of a round is answered; answers whether that was in time.
    fn wait_for_round(&mut self, deadline: Instant) -> bool {
        while self.commits.round.is_some() {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(answer) = self.commits.committer.answer(left) else { return false };
            self.go_on(answer);
        }
        true
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

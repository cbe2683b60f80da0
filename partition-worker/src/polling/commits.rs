//! Telling Kafka what is finished.

use std::time::{Duration, Instant};

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::poller::Poller;
use crate::partition::TopicPartition;
use crate::runs::Commit;

/// Every so many commits, what has not changed is committed as well, in case it never arrived.
const ALL_EVERY: u32 = 10;
/// A commit that failed is made again after so long at the latest.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How long the answer to the last commit is waited for before partitions are given up: well below a session.
const LAST_ANSWER: Duration = Duration::from_secs(5);
/// How long one look for it takes.
const LOOK: Duration = Duration::from_millis(10);

/// When to commit next, and what the broker has taken so far.
pub(super) struct Commits {
    every: Duration,
    due: Instant,
    count: u32,
    /// The size of the largest metadata that the broker has taken.
    metadata_taken: usize,
    /// A commit on its way with larger metadata than that, and its size.
    trial: Option<usize>,
    /// Whether metadata was cut because of it.
    is_cut: bool,
}

impl Commits {
    pub(super) fn new(every: Duration) -> Self {
        Self { every, due: Instant::now() + every, count: 0, metadata_taken: 0, trial: None, is_cut: false }
    }

    /// Which of these has the largest metadata, if it is larger than what the broker has taken.
    fn untried(&self, commits: &[(TopicPartition, Commit)]) -> Option<usize> {
        let sizes = commits.iter().map(|(_, commit)| commit.metadata.len()).enumerate();
        sizes.max_by_key(|(_, size)| *size).filter(|(_, size)| *size > self.metadata_taken).map(|(place, _)| place)
    }
}

impl Poller {
    /// Commits from time to time, and waits for no answer. librdkafka sends explicit commits in order, and answers each through the
    /// context. A group that is between two generations refuses them, which stops nothing: they are made again, or it is the next
    /// owner's turn.
    pub(super) fn commit_if_due(&mut self) {
        let now = Instant::now();
        if self.consumer.context().commit_failed() {
            // Of several in flight it is not told which, so all is said again; what is too old by then is overtaken.
            self.again_soon();
        }
        self.end_trial();
        if now < self.commits.due {
            return;
        }
        self.commits.due = now + self.commits.every;
        self.commits.count = self.commits.count.wrapping_add(1);
        if self.commits.count.is_multiple_of(ALL_EVERY) {
            self.control.commit_again();
        }
        let commits = self.control.commits();
        self.commit(commits);
    }

    /// Commits, and waits for no answer. A broker that takes no metadata of some size refuses the offset with it. So what is larger
    /// than all before is tried alone, and until it is answered the rest has no more metadata than was taken before.
    fn commit(&mut self, mut commits: Vec<(TopicPartition, Commit)>) {
        let untried = self.commits.untried(&commits).filter(|_| self.commits.trial.is_none());
        let untried = untried.map(|place| commits.swap_remove(place));
        for (_, commit) in &mut commits {
            self.commits.is_cut |= commit.metadata.len() > self.commits.metadata_taken;
            commit.cut(self.commits.metadata_taken);
        }
        self.send(&commits);
        if let Some(untried) = untried {
            self.commits.trial = Some(untried.1.metadata.len());
            self.send_awaited(&[untried]);
        }
    }

    /// Notes what became of the largest metadata so far.
    fn end_trial(&mut self) {
        let Some(size) = self.commits.trial else { return };
        let Some(answer) = self.consumer.context().answer() else { return };
        self.commits.trial = None;
        if std::mem::take(&mut self.commits.is_cut) {
            self.control.commit_again();
        }
        match answer {
            Ok(()) => self.commits.metadata_taken = size,
            Err(error) if is_too_large(&error) => {
                self.refused(size);
                self.control.commit_again();
                self.commits.due = Instant::now();
            }
            // It is said again already, since a commit has failed.
            Err(error) => tracing::warn!(%error, "an offset was not committed"),
        }
    }

    /// Commits before partitions are given up. Where nothing else tells the next owner what is finished, the answer is waited for; what the
    /// client calls back meanwhile is answered afterwards.
    pub(super) fn commit_last(&mut self, mut commits: Vec<(TopicPartition, Commit)>) {
        if self.setup.revoke_timeout.is_none() {
            return self.commit(commits);
        }
        self.commits.trial = None;
        let deadline = Instant::now() + LAST_ANSWER;
        while !commits.is_empty() {
            let untried = self.commits.untried(&commits);
            let next = untried.map_or(&*commits, |place| std::slice::from_ref(&commits[place]));
            let size = untried.map(|place| commits[place].1.metadata.len());
            self.send_awaited(next);
            match (self.answer_by(deadline), size) {
                (Ok(()), None) => return,
                (Ok(()), Some(size)) => self.commits.metadata_taken = size,
                (Err(error), Some(size)) if is_too_large(&error) => {
                    let room = self.refused(size);
                    for (_, commit) in &mut commits {
                        commit.cut(room);
                    }
                }
                (Err(error), size) => {
                    tracing::warn!(%error, "offsets were not committed before their partitions were given up");
                    if size.is_some() {
                        self.send(&commits);
                    }
                    return self.again_soon();
                }
            }
        }
    }

    /// Waits for the answer to the commit that was sent.
    fn answer_by(&mut self, deadline: Instant) -> KafkaResult<()> {
        loop {
            if let Some(answer) = self.consumer.context().answer() {
                return answer;
            }
            if Instant::now() >= deadline {
                return Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::RequestTimedOut));
            }
            self.poll_beside(LOOK);
        }
    }

    /// The broker takes no metadata of this size; answers how much it may take.
    fn refused(&mut self, size: usize) -> usize {
        let room = self.commits.metadata_taken.max(size / 2);
        tracing::warn!(size, room, "the broker takes no metadata of this size (offset.metadata.max.bytes); it is cut");
        self.control.metadata_refused(room);
        room
    }

    fn send_awaited(&mut self, commits: &[(TopicPartition, Commit)]) {
        self.consumer.context().await_answer(commits);
        self.send(commits);
    }

    fn send(&mut self, commits: &[(TopicPartition, Commit)]) {
        if commits.is_empty() {
            return;
        }
        if let Err(error) = self.consumer.commit(&commit_list(commits), CommitMode::Async) {
            tracing::warn!(%error, "offsets were not committed");
            self.consumer.context().refuse(commits, error);
            self.again_soon();
        }
    }

    /// Has everything committed again.
    fn again_soon(&mut self) {
        self.control.commit_again();
        self.commits.due = self.commits.due.min(Instant::now() + AGAIN_AFTER);
    }
}

const fn is_too_large(error: &KafkaError) -> bool {
    matches!(error, KafkaError::ConsumerCommit(RDKafkaErrorCode::OffsetMetadataTooLarge))
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

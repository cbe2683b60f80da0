//! Telling Kafka what is finished.

use std::time::{Duration, Instant};

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::poller::Poller;
use crate::partition::TopicPartition;

/// Every so many commits, what has not changed is committed as well, in case it never arrived.
const ALL_EVERY: u32 = 10;
/// A commit that failed is made again after so long at the latest.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// When to commit next.
pub(super) struct Commits {
    every: Duration,
    due: Instant,
    count: u32,
}

impl Commits {
    pub(super) fn new(every: Duration) -> Self {
        Self { every, due: Instant::now() + every, count: 0 }
    }
}

impl Poller {
    /// Commits watermarks from time to time. With the effect in a database Kafka's committed offset is only a hint, so a failure stops
    /// nothing. librdkafka sends explicit commits in order, and answers each through the context.
    pub(super) fn hint(&mut self) {
        let now = Instant::now();
        if self.consumer.context().commit_failed() {
            // Of several commits in flight it is not told which, so all is said again; what is too old by then is overtaken.
            self.control.hint_again();
            self.commits.due = self.commits.due.min(now + AGAIN_AFTER);
        }
        if now < self.commits.due {
            return;
        }
        self.commits.due = now + self.commits.every;
        self.commits.count = self.commits.count.wrapping_add(1);
        if self.commits.count.is_multiple_of(ALL_EVERY) {
            self.control.hint_again();
        }
        self.commit(&self.control.hints());
    }

    pub(super) fn commit(&self, watermarks: &[(TopicPartition, i64)]) {
        if watermarks.is_empty() {
            return;
        }
        let mut list = TopicPartitionList::new();
        for (partition, watermark) in watermarks {
            let offset = Offset::Offset(*watermark);
            if let Err(error) = list.add_partition_offset(partition.topic(), partition.partition(), offset) {
                tracing::debug!(%partition, %error, "an offset cannot be committed");
            }
        }
        if let Err(error) = self.consumer.commit(&list, CommitMode::Async) {
            tracing::debug!(%error, "offsets were not committed");
        }
    }
}

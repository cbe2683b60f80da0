//! What librdkafka calls back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::topic_partition_list::{TopicPartitionList, TopicPartitionListElem};
use rdkafka::types::RDKafkaRespErr;

use super::stats::{self, News};
use crate::partition::TopicPartition;
use crate::runs::Commit;

/// A rebalance that waits for its answer.
#[derive(Debug)]
pub(super) enum Rebalance {
    Assign(Vec<TopicPartition>),
    Revoke(Vec<TopicPartition>),
}

/// Notes rebalances for the polling thread, which answers them right after the poll.
///
/// While closing there is no "after": the consumer's drop polls until the group is left, and would hang if the answer were
/// put off. So then it is given in the callback.
pub(super) struct Context {
    rebalances: Mutex<VecDeque<Rebalance>>,
    closing: AtomicBool,
    commit_failed: AtomicBool,
    awaited: Mutex<Option<Awaited>>,
    news: Mutex<Option<News>>,
}

/// A commit whose answer somebody waits for.
struct Awaited {
    /// Partition, offset and size of the metadata of each; librdkafka sorts them.
    commits: Vec<(TopicPartition, i64, usize)>,
    answer: Option<KafkaResult<()>>,
}

impl Context {
    pub(super) const fn new() -> Self {
        Self {
            rebalances: Mutex::new(VecDeque::new()),
            closing: AtomicBool::new(false),
            commit_failed: AtomicBool::new(false),
            awaited: Mutex::new(None),
            news: Mutex::new(None),
        }
    }

    pub(super) fn next_rebalance(&self) -> Option<Rebalance> {
        self.rebalances.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    pub(super) fn has_rebalance(&self) -> bool {
        !self.rebalances.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether a commit has failed since this was asked last.
    pub(super) fn commit_failed(&self) -> bool {
        self.commit_failed.swap(false, Ordering::SeqCst)
    }

    /// The answer to this commit, which is about to be sent, will be waited for, and to no other any more.
    pub(super) fn await_answer(&self, commits: &[(TopicPartition, Commit)]) {
        *self.awaited() = Some(Awaited { commits: told(commits), answer: None });
    }

    /// The answer that is waited for, once it is there.
    pub(super) fn answer(&self) -> Option<KafkaResult<()>> {
        self.awaited().take_if(|awaited| awaited.answer.is_some())?.answer
    }

    /// The client has not sent this commit.
    pub(super) fn refuse(&self, commits: &[(TopicPartition, Commit)], error: KafkaError) {
        self.answered(Err(error), told(commits));
    }

    fn answered(&self, answer: KafkaResult<()>, mut commits: Vec<(TopicPartition, i64, usize)>) {
        commits.sort();
        if let Some(awaited) = self.awaited().as_mut().filter(|awaited| awaited.commits == commits) {
            awaited.answer = Some(answer);
        }
    }

    fn awaited(&self) -> MutexGuard<'_, Option<Awaited>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the client's statistics have said since this was asked last.
    pub(super) fn news(&self) -> Option<News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }
}

fn told(commits: &[(TopicPartition, Commit)]) -> Vec<(TopicPartition, i64, usize)> {
    let told =
        |(partition, commit): &(TopicPartition, Commit)| (partition.clone(), commit.offset, commit.metadata.len());
    let mut told: Vec<_> = commits.iter().map(told).collect();
    told.sort();
    told
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::warn!(facility, message, "librdkafka");
            }
            _ => tracing::debug!(facility, message, "librdkafka"),
        }
    }

    fn stats_raw(&self, statistics: &[u8]) {
        if let Some(news) = stats::read(statistics) {
            *self.news.lock().unwrap_or_else(PoisonError::into_inner) = Some(news);
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(%error, reason, "librdkafka");
    }
}

impl ConsumerContext for Context {
    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        let told = |element: &TopicPartitionListElem<'_>| {
            let partition = TopicPartition::new(element.topic(), element.partition());
            (partition, element.offset().to_raw().unwrap_or(-1), element.metadata().len())
        };
        self.answered(result.clone(), offsets.elements().iter().map(told).collect());
        // The group is between two generations, its coordinator is on the move, or it knows this worker no more: the next commit, or
        // the next owner's, says it again.
        if let Err(error) = result {
            tracing::debug!(%error, partitions = offsets.count(), "offsets were not committed");
            self.commit_failed.store(true, Ordering::SeqCst);
            #[cfg(feature = "metrics")]
            crate::metrics::record::commit_failed();
        }
    }

    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let assign = event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.closing.load(Ordering::SeqCst) {
            let cooperative = matches!(consumer.rebalance_protocol(), RebalanceProtocol::Cooperative);
            let answered = match (assign, cooperative) {
                (true, true) => consumer.incremental_assign(list),
                (true, false) => consumer.assign(list),
                (false, true) => consumer.incremental_unassign(list),
                (false, false) => consumer.unassign(),
            };
            if let Err(error) = answered {
                tracing::debug!(%error, "a rebalance while closing");
            }
            return;
        }
        let partitions = list.elements().iter().map(|e| TopicPartition::new(e.topic(), e.partition())).collect();
        let rebalance = if assign { Rebalance::Assign(partitions) } else { Rebalance::Revoke(partitions) };
        self.rebalances.lock().unwrap_or_else(PoisonError::into_inner).push_back(rebalance);
    }
}

//! What librdkafka calls back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaRespErr;

use super::stats::{self, News};
use crate::partition::TopicPartition;

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
    news: Mutex<Option<News>>,
}

impl Context {
    pub(super) const fn new() -> Self {
        Self { rebalances: Mutex::new(VecDeque::new()), closing: AtomicBool::new(false), news: Mutex::new(None) }
    }

    pub(super) fn next_rebalance(&self) -> Option<Rebalance> {
        self.rebalances.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    pub(super) fn has_rebalance(&self) -> bool {
        !self.rebalances.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// What the client's statistics have said since this was asked last.
    pub(super) fn news(&self) -> Option<News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }
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

//! A topic of one turn: written by the contender, read from its beginning to its end, or followed as it grows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use leastlock_testkit::broker::{Broker, watermarks};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::task::JoinHandle;

use super::events::Arrivals;

/// How many partitions a topic has.
pub(super) const PARTITIONS: i32 = 8;
/// How long a broker may take for one answer.
const ANSWER: Duration = Duration::from_secs(30);
/// A topic that has grown by nothing for so long is not read to its end.
const STANDSTILL: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);

/// A topic; it goes with the value.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: String,
    broker: Broker,
}

impl Topic {
    pub(super) async fn create(brokers: &str) -> Self {
        let broker = Broker::at(brokers);
        let name = broker.topic(PARTITIONS).await;
        Self { name, broker }
    }

    pub(super) fn brokers(&self) -> &str {
        self.broker.bootstrap()
    }

    /// Everything that is in the topic now, of so many events.
    pub(super) async fn read(&self, events: u64) -> anyhow::Result<Arrivals> {
        let arrivals = Arc::new(Mutex::new(Arrivals::of(events)));
        let each = Arc::clone(&arrivals);
        self.read_each(move |record| {
            each.lock().unwrap_or_else(PoisonError::into_inner).count(record.key(), record.payload());
        })
        .await?;
        Ok(Arc::into_inner(arrivals).context("the reader has ended")?.into_inner()?)
    }

    /// Calls `each` with every record that is in the topic now.
    pub(super) async fn read_each(
        &self,
        each: impl FnMut(&BorrowedMessage<'_>) + Send + 'static,
    ) -> anyhow::Result<()> {
        let (brokers, topic) = (self.brokers().to_owned(), self.name.clone());
        tokio::task::spawn_blocking(move || read(&brokers, &topic, each)).await?
    }

    /// Calls `each` on a thread of its own with every record, from the beginning on, until the value is stopped or dropped.
    pub(super) fn follow(&self, each: impl FnMut(&BorrowedMessage<'_>) + Send + 'static) -> anyhow::Result<Follower> {
        let consumer = consumer(self.brokers())?;
        consumer.assign(&assignment(&self.name, |_| Offset::Beginning)?)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::task::spawn_blocking(move || follow(&consumer, &stopped, each));
        Ok(Follower { stop, task })
    }
}

/// A consumer that follows a topic.
#[derive(Debug)]
pub(super) struct Follower {
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Follower {
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.stop.store(true, Relaxed);
        (&mut self.task).await.context("the consumer panicked")
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// Whether a broker answers at all, found out before anything is measured.
pub(super) async fn answers(brokers: &str) -> anyhow::Result<()> {
    let brokers = brokers.to_owned();
    let asked = tokio::task::spawn_blocking(move || consumer(&brokers)?.fetch_metadata(None, ANSWER).map(drop));
    asked.await?.context("the Kafka broker does not answer")
}

fn consumer(brokers: &str) -> Result<BaseConsumer, KafkaError> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "leastlock-bench").set("enable.auto.commit", "false");
    // A broker that was killed is back before long.
    config.set("reconnect.backoff.max.ms", "500").set("auto.offset.reset", "earliest").create()
}

fn assignment(topic: &str, offset: impl Fn(i32) -> Offset) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(topic, partition, offset(partition))?;
    }
    Ok(list)
}

fn follow(consumer: &BaseConsumer, stop: &AtomicBool, mut each: impl FnMut(&BorrowedMessage<'_>)) {
    while !stop.load(Relaxed) {
        // An error is an outage of the broker, which librdkafka gets over by itself.
        if let Some(Ok(message)) = consumer.poll(POLL) {
            each(&message);
        }
    }
}

fn read(brokers: &str, topic: &str, mut each: impl FnMut(&BorrowedMessage<'_>)) -> anyhow::Result<()> {
    let consumer = consumer(brokers)?;
    let (mut ends, mut starts) = (HashMap::new(), HashMap::new());
    for partition in 0..PARTITIONS {
        let (low, high) = watermarks(&consumer, topic, partition, ANSWER)?;
        starts.insert(partition, low);
        if low < high {
            ends.insert(partition, high);
        }
    }
    consumer.assign(&assignment(topic, |partition| Offset::Offset(starts[&partition]))?)?;
    let mut last = Instant::now();
    while !ends.is_empty() {
        ensure!(last.elapsed() < STANDSTILL, "{} partitions of the topic cannot be read", ends.len());
        let Some(Ok(message)) = consumer.poll(POLL) else { continue };
        last = Instant::now();
        let end = ends.get(&message.partition()).copied().unwrap_or(0);
        if message.offset() < end {
            each(&message);
        }
        if message.offset() + 1 >= end {
            ends.remove(&message.partition());
        }
    }
    Ok(())
}

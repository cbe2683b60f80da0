//! The thread that polls Kafka, and how it talks with the rest.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use tokio::sync::oneshot;

use crate::assignment::Grant;
use crate::dispatch::Failures;
use crate::error::Error;
use crate::flow::Change;
use crate::health::Probe;
use crate::partition::{Epoch, TopicPartition};
use crate::record::Record;
use crate::runs::{Commit, Runs};

mod commits;
mod committer;
mod context;
mod copy;
mod pauses;
mod poller;
mod rebalance;
mod stats;

use self::context::Context;
use self::poller::Poller;

/// What the polling thread asks of the rest of the worker. No call may block.
pub(crate) trait Control: Oversight {
    /// Seal these partitions, and answer each with [`Order::Sealed`].
    fn seal(&self, grant: Grant, partitions: Vec<TopicPartition>);
    /// Records of this partition come from now on.
    fn activate(&self, partition: &TopicPartition, start: Start);
    /// These partitions are taken away; answers what may be committed of those that were active.
    fn take_away(&self, partitions: &[TopicPartition], lost: bool) -> Vec<(TopicPartition, Commit)>;
    /// Records have come; takes them all.
    fn deliver(&self, records: &mut Vec<Record>);
    /// What has to be paused and resumed.
    fn change(&self) -> Change;
    /// What may be committed and Kafka has not been told yet.
    fn commits(&self) -> Vec<(TopicPartition, Commit)>;
    /// The commits that were given may not have arrived.
    fn commit_again(&self);
    /// The broker takes no more metadata than so many bytes.
    fn metadata_refused(&self, room: usize);
}

/// What the polling thread asks about the handlers that run. No call may block.
pub(crate) trait Oversight: Send + Sync {
    /// Start no handler of these any more.
    fn start_drain(&self, partitions: &[TopicPartition]);
    /// Whether no handler of these runs.
    fn is_idle(&self, partitions: &[TopicPartition]) -> bool;
    /// Report handlers that have run for too long; an answer is why the group is to be left.
    fn look(&self, now: Instant) -> Option<Error>;
}

/// What the polling thread is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// A partition is sealed; `None`: another owner was faster.
    Sealed { grant: Grant, partition: TopicPartition, start: Option<Start> },
    /// Another owner has sealed an active partition.
    Fenced(TopicPartition),
    /// Take no more records.
    Drain,
    /// Commit, leave the group, and end.
    Close,
}

/// Where a sealed partition starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) epoch: Epoch,
    pub(crate) offset: i64,
    pub(crate) finished: Runs,
    pub(crate) failures: Failures,
}

/// What the polling thread is made of.
pub(crate) struct Setup {
    pub(crate) kafka: ClientConfig,
    pub(crate) topics: Vec<String>,
    pub(crate) commit_every: Duration,
    pub(crate) rejoin_after: Duration,
    /// How long handlers may take to finish at a revocation; `None` where the next owner waits for them.
    pub(crate) revoke_timeout: Option<Duration>,
    pub(crate) probe: Probe,
}

/// Starts the thread; the answer comes when it has ended.
pub(crate) fn start(
    setup: Setup,
    control: Arc<dyn Control>,
    orders: Receiver<Order>,
) -> Result<oneshot::Receiver<Result<(), Error>>, Error> {
    let operation = "creating the consumer";
    let context = Context::new();
    let consumer = BaseConsumer::from_config_and_context(&setup.kafka, context);
    let consumer = consumer.map_err(|source| Error::Kafka { operation, source })?;
    let names: Vec<&str> = setup.topics.iter().map(String::as_str).collect();
    consumer.subscribe(&names).map_err(|source| Error::Kafka { operation: "subscribing", source })?;
    let (answer, ended) = oneshot::channel();
    let poller = Poller::new(consumer, setup, control, orders).map_err(|_| Error::PollingThreadEnded)?;
    let thread = std::thread::Builder::new().name("leastlock-poll".into());
    let spawned = thread.spawn(move || {
        // If the worker's future is gone nobody waits for the answer.
        let _ = answer.send(poller.run());
    });
    spawned.map(|_| ended).map_err(|_| Error::PollingThreadEnded)
}

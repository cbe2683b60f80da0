//! A worker under test, and what it processed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use leastlock_core::Backoff;
use leastlock_partition_worker::effect::AtLeastOnce;
use leastlock_partition_worker::runs::Commit;
use leastlock_partition_worker::{Builder, Effect, Error, Failure, Process, Record, Summary, Worker};
use leastlock_testkit::broker::Broker;
use leastlock_testkit::process::{Child, child_role, speak};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::topic_partition_list::Offset;
use rdkafka::{ClientConfig, TopicPartitionList};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Long enough for a loaded machine; nothing waits for it that comes earlier.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

pub(crate) struct Rig {
    pub(crate) broker: Broker,
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) settings: Vec<(&'static str, String)>,
    partitions: i32,
}

impl Rig {
    pub(crate) async fn new(broker: Broker, partitions: i32) -> Self {
        let filter = tracing_subscriber::EnvFilter::try_from_default_env()
            .unwrap_or_else(|_| "warn,leastlock_partition_worker=debug".into());
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let topic = broker.topic(partitions).await;
        Self { broker, group: format!("{topic}-group"), topic, settings: Vec::new(), partitions }
    }

    pub(crate) async fn cooperative(broker: Broker) -> Self {
        let mut rig = Self::new(broker, 4).await;
        rig.settings.push(("partition.assignment.strategy", "cooperative-sticky".to_owned()));
        rig
    }

    pub(crate) fn builder(&self) -> Builder<AtLeastOnce> {
        builder(self.broker.bootstrap(), &self.group, &self.topic, &self.settings)
    }

    /// Produces records for each key, in turn, with their number of the key as the value, from 1.
    pub(crate) async fn produce(&self, keys: &[&str], numbers: std::ops::RangeInclusive<i64>) {
        let sends = numbers.flat_map(|number| keys.iter().map(move |key| (number, *key)));
        join_all(sends.map(|(number, key)| self.broker.produce(&self.topic, key, number.to_string()))).await;
    }

    /// Produces so many records without a key into the only partition, with their number as the value, from 1.
    pub(crate) async fn produce_without_a_key(&self, count: i64) {
        let mut config = ClientConfig::new();
        let producer: FutureProducer =
            config.set("bootstrap.servers", self.broker.bootstrap()).create().expect("a producer");
        for number in 1..=count {
            let value = number.to_string();
            let record = FutureRecord::<(), _>::to(&self.topic).partition(0).payload(&value);
            producer.send(record, LIMIT).await.unwrap_or_else(|(error, _)| panic!("record {number}: {error}"));
        }
    }

    /// What the group has committed, partition by partition.
    pub(crate) async fn committed(&self) -> Vec<Commit> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.broker.bootstrap()).set("group.id", &self.group);
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&self.topic, 0, self.partitions - 1);
        let asked = tokio::task::spawn_blocking(move || {
            let client: BaseConsumer = config.create().expect("a client");
            let committed = client.committed_offsets(list, LIMIT).expect("committed offsets");
            let commit = |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| match element.offset() {
                Offset::Offset(offset) => Commit::read(offset, element.metadata()),
                _ => Commit::read(0, ""),
            };
            committed.elements().iter().map(commit).collect()
        });
        asked.await.expect("no panic")
    }

    /// A worker in a process of its own that fails on one key for ever. It has processed all else, and committed so, when
    /// it is killed.
    pub(crate) fn killed(&self, stuck: &str, metadata: usize, processed: usize) {
        let metadata = metadata.to_string();
        let settings = [
            ("BOOTSTRAP", self.broker.bootstrap()),
            ("GROUP", &self.group),
            ("TOPIC", &self.topic),
            ("STUCK", stuck),
            ("METADATA", &metadata),
        ];
        let mut child = Child::rerun("killed_worker", &settings);
        for _ in 0..processed {
            child.line_containing("processed", LIMIT);
        }
        child.line_containing("committed twice", LIMIT);
        child.kill();
    }
}

fn builder(bootstrap: &str, group: &str, topic: &str, settings: &[(&'static str, String)]) -> Builder<AtLeastOnce> {
    let mut kafka = ClientConfig::new();
    kafka.set("bootstrap.servers", bootstrap).set("group.id", group);
    if !settings.iter().any(|(name, _)| *name == "group.protocol") {
        kafka.set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "500");
    }
    for (name, value) in settings {
        kafka.set(*name, value);
    }
    Worker::builder(kafka)
        .topic(topic)
        .effect(Effect::at_least_once())
        .backoff(Backoff::new(Duration::from_millis(5), Duration::from_millis(50)))
        .commit_every(Duration::from_millis(100))
}

pub(crate) fn killed_worker(name: &str) {
    if !child_role(name) {
        return;
    }
    let env = |name: &str| std::env::var(name).expect("the parent sets it");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stuck = env("STUCK");
        let worker = builder(&env("BOOTSTRAP"), &env("GROUP"), &env("TOPIC"), &[])
            .commit_metadata(env("METADATA").parse().expect("a number"))
            .max_attempts(u32::MAX);
        let log = Log::default();
        let said = log.clone();
        let handler = log.first(move |record| {
            let result = if record.key() == Some(stuck.as_bytes()) { Err(Failure::retry("stuck")) } else { Ok(()) };
            Box::pin(async { result })
        });
        let running = start(worker, handler);
        let mut told = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let processed = said.processed().len();
            (told..processed).for_each(|_| speak("processed"));
            if told == processed && processed > 0 {
                // Two periods of commits have begun and ended since the last record.
                tokio::time::sleep(Duration::from_secs(1)).await;
                if said.processed().len() == told {
                    speak("committed twice");
                }
            }
            told = processed;
            assert!(!running.task.is_finished(), "the worker goes on until it is killed");
        }
    });
}

pub(crate) fn start<H: Process>(builder: Builder<AtLeastOnce>, handler: H) -> Running {
    let shutdown = CancellationToken::new();
    let worker = builder.build().expect("a worker");
    Running { task: tokio::spawn(worker.run(handler, shutdown.clone())), shutdown }
}

/// A running worker.
pub(crate) struct Running {
    pub(crate) task: JoinHandle<Result<Summary, Error>>,
    pub(crate) shutdown: CancellationToken,
}

impl Running {
    pub(crate) async fn stop(self) -> Summary {
        self.shutdown.cancel();
        let ended = tokio::time::timeout(LIMIT, self.task).await.expect("the worker ends in time");
        ended.expect("it does not panic").expect("the worker ends without an error")
    }
}

/// Partition, offset, key and number of a record.
type Processed = (i32, i64, String, i64);

/// What was processed, in the order in which it came to an end.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Processed>>>);

impl Log {
    pub(crate) fn processed(&self) -> Vec<Processed> {
        self.0.lock().expect("no panic under the lock").clone()
    }

    pub(crate) fn plain(&self) -> Told {
        self.first(|_| Box::pin(async { Ok(()) }))
    }

    pub(crate) fn first(
        &self,
        before: impl Fn(&Record) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync + 'static,
    ) -> Told {
        Told { log: self.clone(), before: Box::new(before) }
    }

    pub(crate) async fn until(&self, count: usize) {
        let what = format!("{count} records are processed");
        leastlock_testkit::until(&what, LIMIT, async || self.processed().len() >= count).await;
    }

    /// Each key's numbers, each once, in order.
    pub(crate) fn assert_once(&self, keys: &[&str], upto: i64) {
        let processed = self.processed();
        for key in keys {
            let of_key = processed.iter().filter(|(_, _, of, _)| of == key);
            let numbers: Vec<i64> = of_key.map(|(_, _, _, number)| *number).collect();
            assert_eq!(numbers, (1..=upto).collect::<Vec<_>>(), "what was processed of {key}");
        }
        assert_eq!(processed.len(), keys.len() * usize::try_from(upto).expect("small"), "processed in all");
    }
}

type Before = dyn Fn(&Record) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync;

pub(crate) struct Told {
    log: Log,
    before: Box<Before>,
}

impl Process for Told {
    async fn process(&self, record: &Record) -> Result<(), Failure> {
        (self.before)(record).await?;
        let key = String::from_utf8_lossy(record.key().unwrap_or_default()).into_owned();
        let processed = (record.partition(), record.offset(), key, record.json()?);
        self.log.0.lock().expect("no panic under the lock").push(processed);
        Ok(())
    }
}

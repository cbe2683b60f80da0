//! Kafka for a test: librdkafka's mock cluster inside the process, or the real broker.
//!
//! The mock cluster knows nothing of transactions' isolation, of retention or of the Admin API, and its rebalances are
//! simple. So it shows that code is right in itself; what depends on a broker is shown on the real one.

mod mock;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication, TopicResult,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers, Message};
use rdkafka::metadata::{MetadataPartition, MetadataTopic};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::future_producer::FutureProducerContext;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use crate::until;

/// Where the Kafka brokers for tests listen; `scripts/services env` prints it.
pub const KAFKA_BROKERS: &str = "LEASTLOCK_KAFKA_BROKERS";

/// How long one request to a broker may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// How long one poll of a consumer waits for a record.
const POLL: Duration = Duration::from_millis(50);

/// A Kafka cluster with topics of the test's own.
pub struct Broker {
    bootstrap: String,
    producer: FutureProducer,
    /// For the real broker only; the mock cluster lives inside `producer`.
    admin: Option<AdminClient<DefaultClientContext>>,
    topics: Mutex<Vec<String>>,
}

/// A record as it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// In this partition.
    pub partition: i32,
    /// At this place.
    pub offset: i64,
    /// Its key, if it has one.
    pub key: Option<Vec<u8>>,
    /// Its value; a tombstone has none.
    pub value: Option<Vec<u8>>,
    /// Its headers, in order; one without a value has none.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Broker {
    /// A mock cluster of one broker inside this process; it ends with the value. Child processes reach it as well.
    #[must_use]
    pub fn mock() -> Self {
        let producer = producer(ClientConfig::new().set("test.mock.num.brokers", "1"));
        let bootstrap = producer.client().mock_cluster().expect("the producer has made one").bootstrap_servers();
        mock::join_soon(producer.client());
        Self { bootstrap, producer, admin: None, topics: Mutex::default() }
    }

    /// The real broker, which `LEASTLOCK_KAFKA_BROKERS` names. Without it the test fails: nothing is skipped.
    #[must_use]
    pub fn real() -> Self {
        let bootstrap = std::env::var(KAFKA_BROKERS)
            .unwrap_or_else(|_| panic!("{KAFKA_BROKERS} is not set: eval \"$(scripts/services env)\""));
        Self::at(&bootstrap)
    }

    /// A real broker that listens elsewhere.
    #[must_use]
    pub fn at(bootstrap: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap);
        let admin = Some(config.create().expect("an admin client"));
        Self { producer: producer(&mut config), bootstrap: bootstrap.to_owned(), admin, topics: Mutex::default() }
    }

    /// What a client's `bootstrap.servers` is to be.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// The mock cluster, to make it misbehave; `None` on the real broker.
    #[must_use]
    pub fn mock_cluster(&self) -> Option<MockCluster<'_, FutureProducerContext<DefaultClientContext>>> {
        self.producer.client().mock_cluster()
    }

    /// Makes a topic with a name that no other test has, ready to be written and read. It goes with the value.
    pub async fn topic(&self, partitions: i32) -> String {
        let name = format!("leastlock-test-{}", uuid::Uuid::new_v4().simple());
        self.make(&name, partitions).await;
        name
    }

    /// Makes a topic of a name that the caller knows to be free, as [`topic`](Self::topic) does.
    pub async fn topic_named(&self, name: &str, partitions: i32) {
        self.make(name, partitions).await;
    }

    /// Deletes a topic of the test's and makes another one of that name, which is empty. A mock cluster cannot delete one, so it ends and
    /// another one takes its place, at another address.
    pub async fn make_anew(&mut self, topic: &str, partitions: i32) {
        if let Some(admin) = &self.admin {
            let deleted = admin.delete_topics(&[topic], &AdminOptions::new()).await.expect("the broker answers");
            deleted.into_iter().next().expect("an answer for each topic").expect("the topic is there");
            let deadline = Instant::now() + REQUEST_LIMIT;
            // The name is free a little later than the broker says.
            while let Err((_, code)) = self.create(topic, partitions).await {
                assert_eq!(code, RDKafkaErrorCode::TopicAlreadyExists, "a new topic");
                assert!(Instant::now() < deadline, "the topic {topic} is never gone");
                tokio::time::sleep(POLL).await;
            }
            // An idempotent producer goes on counting where the deleted log ended.
            self.producer = producer(ClientConfig::new().set("bootstrap.servers", &self.bootstrap));
        } else {
            *self = Self::mock();
        }
        self.create_on_mock(topic, partitions);
        self.led(topic, partitions).await;
    }

    /// Gives a topic of the real broker another setting, and waits until the broker goes by it: it answers before that.
    pub async fn set(&self, topic: &str, setting: &str, value: &str) {
        let admin = self.admin.as_ref().expect("only of the real broker");
        let (topic, options) = (ResourceSpecifier::Topic(topic), AdminOptions::new());
        let altered = admin.alter_configs([&AlterConfig::new(topic).set(setting, value)], &options).await;
        altered.expect("the broker answers").pop().expect("an answer for the topic").expect("the setting is taken");
        until("the broker goes by its topic's new setting", REQUEST_LIMIT, async || {
            let described = admin.describe_configs([&topic], &options).await.expect("the broker answers").pop();
            let described = described.expect("an answer for the topic").expect("the topic is there");
            described.get(setting).is_some_and(|entry| entry.value.as_deref() == Some(value))
        })
        .await;
    }

    async fn create(&self, name: &str, partitions: i32) -> TopicResult {
        let admin = self.admin.as_ref().expect("only of the real broker");
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let options = AdminOptions::new().operation_timeout(Some(REQUEST_LIMIT));
        let made = admin.create_topics([&topic], &options).await.expect("the broker answers");
        made.into_iter().next().expect("an answer for each topic")
    }

    async fn make(&self, name: &str, partitions: i32) {
        if self.admin.is_some() {
            self.create(name, partitions).await.expect("a new topic");
            self.topics.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
        }
        self.create_on_mock(name, partitions);
        self.led(name, partitions).await;
    }

    /// Not across an await: the handle is not `Send`, and a test's future has to be.
    fn create_on_mock(&self, name: &str, partitions: i32) {
        if let Some(cluster) = self.mock_cluster() {
            cluster.create_topic(name, partitions, 1).expect("a new topic");
        }
    }

    /// Appends a record, to the partition that its key belongs to; answers partition and offset once it is durable.
    pub async fn produce(&self, topic: &str, key: &str, value: impl AsRef<[u8]>) -> (i32, i64) {
        self.send(FutureRecord::to(topic).key(key).payload(value.as_ref())).await
    }

    /// Appends a record to a partition of the test's choice; answers its offset once it is durable.
    pub async fn produce_to(&self, topic: &str, partition: i32, key: &str, value: impl AsRef<[u8]>) -> i64 {
        self.send(FutureRecord::to(topic).partition(partition).key(key).payload(value.as_ref())).await.1
    }

    /// All records of a topic up to the high watermarks of this moment, partition by partition, each in its order.
    ///
    /// # Panics
    /// When they cannot be read within `limit`.
    pub async fn read_all(&self, topic: &str, limit: Duration) -> Vec<Record> {
        let (bootstrap, topic) = (self.bootstrap.clone(), topic.to_owned());
        // The consumer's calls block their thread.
        let read = tokio::task::spawn_blocking(move || read_all(&bootstrap, &topic, limit));
        read.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn send(&self, record: FutureRecord<'_, str, [u8]>) -> (i32, i64) {
        let topic = record.topic.to_owned();
        let sent = self.producer.send(record, REQUEST_LIMIT).await;
        let delivery = sent.unwrap_or_else(|(error, _)| panic!("a record for {topic}: {error}"));
        // Without one it was taken for a repeat of another record, and is not in the log.
        assert!(delivery.offset >= 0, "a record for {topic} [{}] has no place in the log", delivery.partition);
        (delivery.partition, delivery.offset)
    }

    /// Waits until each partition of a new topic has a leader, and until this leader knows: until then a client may be told that there is no
    /// topic, or refused. An idempotent producer's first batch would be refused then, and the next one, already on its way, taken.
    async fn led(&self, topic: &str, partitions: i32) {
        let (producer, topic) = (self.producer.clone(), topic.to_owned());
        let led = tokio::task::spawn_blocking(move || {
            let deadline = Instant::now() + REQUEST_LIMIT;
            loop {
                let metadata = producer.client().fetch_metadata(Some(&topic), REQUEST_LIMIT).expect("metadata");
                let found = metadata.topics().iter().find(|found| found.name() == topic);
                let led = found.map_or(0, |found| {
                    found.partitions().iter().filter(|part| part.leader() >= 0 && part.error().is_none()).count()
                });
                if i32::try_from(led) == Ok(partitions) {
                    break;
                }
                assert!(Instant::now() < deadline, "{led} of {partitions} partitions of {topic} have a leader");
                std::thread::sleep(Duration::from_millis(10));
            }
            for partition in 0..partitions {
                let left = deadline.saturating_duration_since(Instant::now());
                let told = until_told(left, |left| producer.client().fetch_watermarks(&topic, partition, left));
                told.unwrap_or_else(|error| panic!("the leader of {topic} [{partition}]: {error}"));
            }
        });
        led.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }
}

impl Record {
    /// The key as text; panics if there is none or it is not UTF-8.
    #[must_use]
    pub fn key_text(&self) -> &str {
        std::str::from_utf8(self.key.as_deref().expect("the record has a key")).expect("the key is text")
    }

    /// The value as text; panics if there is none or it is not UTF-8.
    #[must_use]
    pub fn value_text(&self) -> &str {
        std::str::from_utf8(self.value.as_deref().expect("the record has a value")).expect("the value is text")
    }

    /// The value of the first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(of, _)| of == name)?.1.as_deref()
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.admin.is_some() { "real" } else { "mock" };
        formatter
            .debug_struct("Broker")
            .field("kind", &kind)
            .field("bootstrap", &self.bootstrap)
            .finish_non_exhaustive()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let topics = std::mem::take(&mut *self.topics.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(admin) = self.admin.take().filter(|_| !topics.is_empty()) else { return };
        // A thread of its own: `Drop` runs inside the test's runtime, which cannot be blocked on.
        let ended = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let names: Vec<&str> = topics.iter().map(String::as_str).collect();
            runtime.block_on(admin.delete_topics(&names, &AdminOptions::new()))
        });
        if let Ok(Err(error)) = ended.join() {
            eprintln!("the test's topics were left behind: {error}");
        }
    }
}

fn producer(config: &mut ClientConfig) -> FutureProducer {
    config.set("enable.idempotence", "true").set("linger.ms", "0").create().expect("a producer")
}

/// Where a partition begins and ends now, asked until it is told or `within` is over: of a topic that is quite new, the client
/// may not know the leader, or ask one that does not know it yet.
///
/// # Errors
/// The last of those that came.
pub fn watermarks(
    consumer: &BaseConsumer,
    topic: &str,
    partition: i32,
    within: Duration,
) -> Result<(i64, i64), KafkaError> {
    until_told(within, |left| consumer.fetch_watermarks(topic, partition, left))
}

fn until_told<T>(within: Duration, ask: impl Fn(Duration) -> Result<T, KafkaError>) -> Result<T, KafkaError> {
    let deadline = Instant::now() + within;
    loop {
        match ask(deadline.saturating_duration_since(Instant::now())) {
            Err(_) if Instant::now() < deadline => std::thread::sleep(POLL),
            told => return told,
        }
    }
}

fn read_all(bootstrap: &str, topic: &str, limit: Duration) -> Vec<Record> {
    let deadline = Instant::now() + limit;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("group.id", "leastlock-test-reader");
    config.set("enable.auto.commit", "false").set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let metadata = consumer.fetch_metadata(Some(topic), limit).expect("metadata");
    let mut assignment = TopicPartitionList::new();
    // What is still to be read: the high watermark of each partition that is not empty.
    let mut left = BTreeMap::new();
    let found = metadata.topics().iter().flat_map(MetadataTopic::partitions);
    for partition in found.map(MetadataPartition::id) {
        let found = watermarks(&consumer, topic, partition, deadline.saturating_duration_since(Instant::now()));
        let (low, high) = found.unwrap_or_else(|error| panic!("watermarks of {topic} [{partition}]: {error}"));
        if low < high {
            assignment.add_partition_offset(topic, partition, Offset::Offset(low)).expect("an offset");
            left.insert(partition, high);
        }
    }
    consumer.assign(&assignment).expect("an assignment");
    let mut records = Vec::new();
    while !left.is_empty() {
        assert!(Instant::now() < deadline, "within {limit:?} {} records of {topic}; left: {left:?}", records.len());
        match consumer.poll(POLL) {
            Some(Ok(message)) => {
                let Some(high) = left.get(&message.partition()).copied() else { continue };
                if message.offset() < high {
                    records.push(record(&message));
                }
                if message.offset() + 1 >= high {
                    left.remove(&message.partition());
                }
            }
            // The last places before the watermark may be a transaction's markers, which no consumer sees.
            Some(Err(KafkaError::PartitionEOF(partition))) => drop(left.remove(&partition)),
            Some(Err(error)) if Instant::now() >= deadline => panic!("{topic}: {error}"),
            Some(Err(_)) | None => {}
        }
    }
    records.sort_by_key(|record: &Record| (record.partition, record.offset));
    records
}

fn record(message: &impl Message) -> Record {
    let headers = message.headers().into_iter().flat_map(Headers::iter);
    Record {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers.map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect(),
    }
}

//! Records as they are written and as they are found, beyond what the rig has.

use std::sync::{Arc, Mutex};

use leastlock_partition_worker::{Failure, Record};
use leastlock_testkit::broker::Broker;
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::rig::{Bus, LIMIT, Rig, Told, start};

/// The key whose records fail.
pub(crate) const BAD: &str = "85123A";
pub(crate) const GOOD: [&str; 3] = ["71053", "84406B", "84029G"];

pub(crate) fn is_bad(record: &Record) -> bool {
    record.key() == Some(BAD.as_bytes())
}

/// Fails for good at the records for which `wrong` holds.
pub(crate) fn failing_at(owner: &'static str, wrong: impl Fn(&Record) -> bool + Send + Sync + 'static) -> Told {
    Told::first(owner, move |record| {
        let wrong = wrong(record);
        Box::pin(async move { if wrong { Err(Failure::permanent("no such account")) } else { Ok(()) } })
    })
}

/// Appends a record of any kind to partition 0; answers its offset.
pub(crate) async fn append(broker: &Broker, topic: &str, record: &Record) -> i64 {
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", broker.bootstrap()).create().expect("a producer");
    let mut message = FutureRecord::<[u8], [u8]>::to(topic).partition(0);
    (message.key, message.payload, message.timestamp) = (record.key(), record.value(), record.timestamp_ms());
    let headers = record
        .headers()
        .iter()
        .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: value.as_deref() }));
    producer.send(message.headers(headers), LIMIT).await.expect("it is appended").offset
}

/// All records of a topic, as a worker's handler gets them; waits until there are `count`.
pub(crate) async fn consumed<DB: Bus>(rig: &Rig<DB>, topic: &str, count: usize) -> Vec<Record> {
    let seen: Arc<Mutex<Vec<Record>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let look = Told::first("looks", move |record| {
        noted.lock().expect("no panic").push(record.clone());
        Box::pin(async { Err(Failure::permanent("only looking")) })
    });
    let group = format!("{topic}-{}", uuid::Uuid::new_v4());
    let timeouts = leastlock_partition_worker::Timeouts::default();
    let builder = crate::rig::builder(&rig.database.pool, timeouts, rig.broker.bootstrap(), &group, topic, &[]);
    let worker = start(builder.on_failure(leastlock_partition_worker::OnFailure::Skip), look);
    leastlock_testkit::until("copies", LIMIT, async || seen.lock().expect("no panic").len() >= count).await;
    worker.stop().await;
    let mut records = std::mem::take(&mut *seen.lock().expect("no panic"));
    records.sort_by_key(|record| (record.partition(), record.offset()));
    records
}

/// Keeps whatever is produced out of a mock cluster, as brokers that have lost their replicas do.
pub(crate) struct Closed<'a>(&'a Broker);

impl<'a> Closed<'a> {
    pub(crate) fn new(broker: &'a Broker) -> Self {
        let refused = vec![RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS; 10_000];
        let cluster = broker.mock_cluster().expect("a mock cluster");
        cluster.request_errors(RDKafkaApiKey::Produce, &refused);
        Self(broker)
    }

    pub(crate) fn open(self) {
        let cluster = self.0.mock_cluster().expect("a mock cluster");
        cluster.clear_request_errors(RDKafkaApiKey::Produce);
    }
}

/// The same with a mock cluster, whatever goes with the engine: a real one cannot be made to keep out a topic.
pub(crate) async fn on_the_mock_cluster<DB: Bus>(mut rig: Rig<DB>) -> Rig<DB> {
    rig.broker = Broker::mock();
    rig.topic = rig.broker.topic(1).await;
    rig
}

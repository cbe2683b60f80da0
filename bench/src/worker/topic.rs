//! The records of a turn. Each key comes once among as many records as there are keys, in random order, so that no key is ever
//! scarce where it is not meant to be.

use std::time::{Duration, Instant};

use anyhow::ensure;
use fastrand::Rng;
use leastlock_testkit::broker::Broker;
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::util::Timeout;

const FILLING: &[u8] = br#"{"item":"85123A","units":6,"country":"United Kingdom","invoice":536365}"#;
const FLUSH_LIMIT: Duration = Duration::from_mins(2);
const QUEUE_FULL_PAUSE: Duration = Duration::from_micros(500);

/// So many records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Records {
    pub(super) count: u64,
    pub(super) keys: u64,
    pub(super) partitions: i32,
    /// Of each value.
    pub(super) bytes: usize,
    pub(super) seed: u64,
}

/// A topic with records in it.
#[derive(Debug, Clone)]
pub(super) struct Topic {
    pub(super) name: String,
    pub(super) brokers: String,
    pub(super) records: Records,
}

pub(super) fn key_name(key: u64) -> String {
    format!("key-{key:05}")
}

/// The number in the name of a key.
pub(super) fn key_number(key: &[u8]) -> Option<u64> {
    std::str::from_utf8(key).ok()?.strip_prefix("key-")?.parse().ok()
}

impl Topic {
    /// A new topic, full.
    pub(super) async fn fill(broker: &Broker, records: Records) -> anyhow::Result<Self> {
        let name = broker.topic(records.partitions).await;
        let topic = Self { name, brokers: broker.bootstrap().to_owned(), records };
        tokio::task::block_in_place(|| topic.produce())?;
        Ok(topic)
    }

    fn produce(&self) -> anyhow::Result<()> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers).set("enable.idempotence", "true");
        // The mock cluster keeps 5 MiB of a partition, as it was sent.
        config.set("compression.type", "lz4").set("linger.ms", "100").set("batch.num.messages", "5000");
        config.set("queue.buffering.max.messages", "200000").set("log_level", "3");
        let producer: BaseProducer = config.create()?;
        let value: Vec<u8> = FILLING.iter().copied().cycle().take(self.records.bytes).collect();
        for key in keys(self.records) {
            let (name, partition) = (key_name(key), partition_of(key, self.records.partitions));
            let mut record = BaseRecord::to(&self.name).key(&name).payload(&value).partition(partition);
            loop {
                match producer.send(record) {
                    Ok(()) => break,
                    Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                        record = again;
                        producer.poll(QUEUE_FULL_PAUSE);
                    }
                    Err((error, _)) => return Err(error.into()),
                }
            }
            producer.poll(Duration::ZERO);
        }
        let deadline = Instant::now() + FLUSH_LIMIT;
        producer.flush(Timeout::After(FLUSH_LIMIT))?;
        ensure!(producer.in_flight_count() == 0 && Instant::now() < deadline, "the records are not acknowledged");
        Ok(())
    }
}

fn partition_of(key: u64, partitions: i32) -> i32 {
    i32::try_from(key % u64::from(partitions.unsigned_abs())).unwrap_or(0)
}

/// The keys of the records, in their order.
fn keys(records: Records) -> impl Iterator<Item = u64> {
    let mut rng = Rng::with_seed(records.seed);
    let mut deck: Vec<u64> = (0..records.keys).collect();
    let rounds = records.count.div_ceil(records.keys);
    let all = (0..rounds).flat_map(move |_| {
        rng.shuffle(&mut deck);
        deck.clone()
    });
    all.take(usize::try_from(records.count).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_comes_once_among_as_many_records_as_there_are_keys() {
        let records = Records { count: 25, keys: 10, partitions: 3, bytes: 0, seed: 1 };
        let all: Vec<u64> = keys(records).collect();
        assert_eq!(all.len(), 25);
        for round in all.chunks(10).take(2) {
            let mut sorted = round.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        }
        assert_ne!(all[..10], all[10..20]);
        assert_eq!(all, keys(records).collect::<Vec<_>>(), "the seed decides");
    }

    #[test]
    fn a_key_is_its_number() {
        assert_eq!(key_number(key_name(42).as_bytes()), Some(42));
        assert_eq!(key_number(b"85123A"), None);
    }
}

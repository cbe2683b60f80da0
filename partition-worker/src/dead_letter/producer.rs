//! Copies on their way there and back: an idempotent producer whose acknowledgement is waited for.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};

use super::origin::Stamp;
use super::reader::{self, Copy};
use crate::record::Record;

/// How long a copy may wait for room in the producer, and then for its acknowledgement.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// What a producer has to be told, whatever the consumer's settings are.
const REQUIRED: [(&str, &str); 7] = [
    // A retry inside the producer must neither double nor overtake, and a copy must survive the loss of its leader.
    ("enable.idempotence", "true"),
    ("acks", "all"),
    ("partitioner", "murmur2_random"),
    // One record a batch: a broker refuses a batch as a whole, and then the refusal speaks of this record and no other.
    ("batch.num.messages", "1"),
    ("linger.ms", "0"),
    ("message.timeout.ms", "30000"),
    // The topic's own limit is the one that counts.
    ("message.max.bytes", "104857600"),
];

/// Settings of consumers, which a producer warns of.
const OF_CONSUMERS: [&str; 26] = [
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.protocol.type",
    "group.remote.assignor",
    "partition.assignment.strategy",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "coordinator.query.interval.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "enable.partition.eof",
    "isolation.level",
    "check.crcs",
    "queued.min.messages",
    "queued.max.messages.kbytes",
    "fetch.wait.max.ms",
    "fetch.min.bytes",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "max.partition.fetch.bytes",
    "fetch.error.backoff.ms",
    "fetch.queue.backoff.ms",
];

/// Why there is no acknowledged copy.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The topic does not take this record: trying again meets the same.
    Refused(KafkaError),
    /// It may be there or not; the broker is away, or busy.
    Unknown(KafkaError),
}

/// Copies records to other topics, and reads copies back.
pub(crate) struct DeadLetters {
    consumer: ClientConfig,
    group: String,
    /// Made when the first record fails.
    producer: Mutex<Option<FutureProducer>>,
    #[cfg(feature = "testing")]
    scripted: Option<std::sync::Arc<crate::testing::Member>>,
}

impl DeadLetters {
    /// For failed records of `group`, in the cluster that `consumer` speaks of.
    pub(crate) const fn new(consumer: ClientConfig, group: String) -> Self {
        Self {
            consumer,
            group,
            producer: Mutex::new(None),
            #[cfg(feature = "testing")]
            scripted: None,
        }
    }

    /// The same, in the topics of a scripted broker.
    #[cfg(feature = "testing")]
    pub(crate) fn scripted(mut self, member: Option<std::sync::Arc<crate::testing::Member>>) -> Self {
        self.scripted = member;
        self
    }

    /// The consumer group.
    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Reads copies back as the records that they were, in the order asked for; perhaps not all, but at least the first. `None`: the
    /// topic does not have it any more.
    ///
    /// # Cancel safety
    /// It only reads; dropped, it goes on for a while in the background.
    pub(crate) async fn read(&self, topic: &str, places: Vec<(i32, i64)>) -> KafkaResult<Vec<Copy>> {
        #[cfg(feature = "testing")]
        if let Some(member) = &self.scripted {
            let copy = |&(partition, offset): &(i32, i64)| member.broker().at(topic, partition, offset);
            return Ok(places.iter().map(|place| super::origin::original(&copy(place)?)).collect());
        }
        reader::read(&self.consumer, topic, places).await
    }

    /// Copies a record; answers partition and offset of the copy, which the broker has acknowledged.
    ///
    /// # Cancel safety
    /// Dropped half-way, the copy may be there or not.
    pub(crate) async fn send(&self, topic: &str, record: &Record, stamp: &Stamp<'_>) -> Result<(i32, i64), SendError> {
        #[cfg(feature = "testing")]
        if let Some(member) = &self.scripted {
            return Ok(member.broker().copy(topic, record, stamp));
        }
        let sent = self.try_send(topic, record, stamp, record.timestamp_ms()).await;
        match sent {
            // A topic may bound how far back timestamps reach; the original one stands in the headers.
            Err(SendError::Refused(error))
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::InvalidTimestamp) =>
            {
                self.try_send(topic, record, stamp, None).await
            }
            sent => sent,
        }
    }

    async fn try_send(
        &self,
        topic: &str,
        record: &Record,
        stamp: &Stamp<'_>,
        timestamp: Option<i64>,
    ) -> Result<(i32, i64), SendError> {
        let mut copy = FutureRecord::to(topic).headers(headers(record, stamp));
        copy.key = record.key();
        copy.payload = record.value();
        copy.timestamp = timestamp;
        let producer = self.producer().map_err(SendError::Refused)?;
        match producer.send(copy, SEND_TIMEOUT).await {
            Ok(delivery) => Ok((delivery.partition, delivery.offset)),
            Err((error, _)) => {
                self.replace_if_fatal(&producer);
                Err(judged(error))
            }
        }
    }

    fn producer(&self) -> KafkaResult<FutureProducer> {
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*producer {
            return Ok(made.clone());
        }
        let mut config = self.consumer.clone();
        for setting in OF_CONSUMERS {
            config.remove(setting);
        }
        for (setting, value) in REQUIRED {
            config.set(setting, value);
        }
        Ok(producer.insert(config.create()?).clone())
    }

    /// After a fatal error an idempotent producer takes nothing any more: the next record gets a new one.
    fn replace_if_fatal(&self, failed: &FutureProducer) {
        if failed.client().fatal_error().is_some() {
            let mut current = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
            if current.as_ref().is_some_and(|current| current.client().fatal_error().is_some()) {
                *current = None;
            }
        }
    }
}

fn headers(record: &Record, stamp: &Stamp<'_>) -> OwnedHeaders {
    let own = record.headers().iter().map(|(name, value)| (name.as_str(), value.as_deref()));
    let stamps = stamp.headers(record);
    let stamps = stamps.iter().map(|(name, value)| (*name, value.as_deref().map(str::as_bytes)));
    let count = record.headers().len() + stamps.len();
    own.chain(stamps)
        .fold(OwnedHeaders::new_with_capacity(count), |headers, (key, value)| headers.insert(Header { key, value }))
}

fn judged(error: KafkaError) -> SendError {
    use RDKafkaErrorCode as Code;

    match error.rdkafka_error_code() {
        Some(
            Code::MessageSizeTooLarge
            | Code::MessageBatchTooLarge
            | Code::InvalidMessageSize
            | Code::InvalidMessage
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::InvalidArgument
            | Code::InvalidTopic
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::UnknownTopicOrPartition
            | Code::UnsupportedForMessageFormat
            | Code::TopicAuthorizationFailed
            | Code::PolicyViolation,
        ) => SendError::Refused(error),
        _ => SendError::Unknown(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_never_a_records_fault() {
        use RDKafkaErrorCode as Code;
        for code in [
            Code::BrokerTransportFailure,
            Code::MessageTimedOut,
            Code::NotLeaderForPartition,
            Code::NotEnoughReplicas,
            Code::QueueFull,
            Code::Fatal,
            Code::OutOfOrderSequenceNumber,
        ] {
            assert!(matches!(judged(KafkaError::MessageProduction(code)), SendError::Unknown(_)), "{code:?}");
        }
        for code in [Code::MessageSizeTooLarge, Code::InvalidRecord, Code::UnknownTopic] {
            assert!(matches!(judged(KafkaError::MessageProduction(code)), SendError::Refused(_)), "{code:?}");
        }
    }
}

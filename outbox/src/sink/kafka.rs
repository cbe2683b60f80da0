//! Events published to Kafka by an idempotent producer.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord, Producer, PurgeConfig};

use super::{EVENT_ID_HEADER, LoggedEvent, SendError, Sink};

/// How long a full producer queue is left to drain before the next event is offered.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(5);

/// What the order and durability of events rest on; the caller's configuration may not say otherwise.
const REQUIRED: [(&str, &str, &str); 4] = [
    ("enable.idempotence", "true", "a retry inside the producer must neither double nor overtake"),
    ("acks", "all", "an acknowledged event must survive the loss of its leader"),
    ("message.timeout.ms", "0", "an outage must end by the relay's lease, never by dropping a message"),
    ("partitioner", "murmur2_random", "keys must land where Java producers put them"),
];

/// Publishes to Kafka: pipelined, idempotent, `acks=all`; keys land where Java producers put them.
///
/// The event id goes out as the header `leastlock_event_id`, before the event's own headers.
pub struct KafkaSink {
    config: ClientConfig,
    producer: Mutex<FutureProducer>,
}

impl KafkaSink {
    /// A sink with librdkafka's settings, `bootstrap.servers` at least. What order and durability rest on is set here.
    ///
    /// # Errors
    /// [`KafkaSinkError::Setting`] when `config` contradicts that, [`KafkaSinkError::Client`] when librdkafka refuses it.
    /// The broker is not contacted.
    pub fn new(mut config: ClientConfig) -> Result<Self, KafkaSinkError> {
        for (name, value, why) in REQUIRED {
            if config.get(name).is_some_and(|set| set != value) {
                return Err(KafkaSinkError::Setting { name, value, why });
            }
            config.set(name, value);
        }
        let producer = config.create().map_err(|source| KafkaSinkError::Client { source })?;
        Ok(Self { config, producer: Mutex::new(producer) })
    }

    fn producer(&self) -> FutureProducer {
        self.producer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sink for KafkaSink {
    async fn publish(&self, events: &[LoggedEvent]) -> Vec<Result<(), SendError>> {
        let producer = self.producer();
        let mut sent = Vec::with_capacity(events.len());
        let mut refused = None;
        for event in events {
            match enqueue(&producer, event).await {
                Ok(delivery) => sent.push(delivery),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        let mut results: Vec<_> = join_all(sent).await.into_iter().map(delivered).collect();
        results.extend(refused.map(Err));
        results.resize_with(events.len(), || {
            Err(SendError::Unknown { reason: "not sent: an event before it was refused".into() })
        });
        results
    }

    /// Purges the producer and makes a new one: an idempotent producer whose messages were purged has a gap in its
    /// sequence and is of no further use.
    fn abandon(&self) {
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        producer.purge(PurgeConfig::default().queue().inflight());
        match self.config.create() {
            Ok(fresh) => *producer = fresh,
            Err(error) => tracing::error!(%error, "no new producer could be made; the old one stays"),
        }
    }
}

impl std::fmt::Debug for KafkaSink {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KafkaSink").finish_non_exhaustive()
    }
}

/// Hands one event to the producer, waiting while its queue is full.
async fn enqueue(producer: &FutureProducer, event: &LoggedEvent) -> Result<DeliveryFuture, SendError> {
    let id = event.event_id.to_string();
    let mut headers = OwnedHeaders::new().insert(Header { key: EVENT_ID_HEADER, value: Some(&id) });
    for (key, value) in event.headers.iter() {
        headers = headers.insert(Header { key, value: Some(value) });
    }
    let mut record = FutureRecord::<[u8], [u8]>::to(&event.topic).headers(headers);
    record.key = event.key.as_deref();
    record.payload = event.value.as_deref();
    record.partition = event.partition;
    loop {
        match producer.send_result(record) {
            Ok(delivery) => return Ok(delivery),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                record = again;
                tokio::time::sleep(QUEUE_FULL_PAUSE).await;
            }
            Err((error, _)) => return Err(send_error(&error)),
        }
    }
}

fn delivered(report: <DeliveryFuture as Future>::Output) -> Result<(), SendError> {
    match report {
        Ok(Ok(_)) => Ok(()),
        Ok(Err((error, _))) => Err(send_error(&error)),
        // The producer was dropped before its report: nothing is known, so nothing is marked sent.
        Err(_) => Err(SendError::Unknown { reason: "the producer ended before the broker's report".into() }),
    }
}

/// Permanent are the errors that speak of the message or of the right to send it; everything else may pass.
fn send_error(error: &KafkaError) -> SendError {
    use RDKafkaErrorCode as Code;

    let reason = error.to_string();
    match error.rdkafka_error_code() {
        Some(
            Code::MessageSizeTooLarge
            | Code::InvalidMessageSize
            | Code::InvalidMessage
            | Code::InvalidRecord
            | Code::InvalidArgument
            | Code::InvalidTopic
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::UnknownTopicOrPartition
            | Code::TopicAuthorizationFailed
            | Code::PolicyViolation,
        ) => SendError::Permanent { reason },
        _ => SendError::Unknown { reason },
    }
}

/// Why a sink could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KafkaSinkError {
    /// The configuration contradicts what order and durability rest on.
    #[error("{name} must be {value}: {why}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What it must be.
        value: &'static str,
        /// What would break.
        why: &'static str,
    },
    /// librdkafka refused the configuration.
    #[error("librdkafka refused the producer's configuration")]
    Client {
        /// What it said.
        #[source]
        source: KafkaError,
    },
}

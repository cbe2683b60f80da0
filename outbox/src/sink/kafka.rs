//! Events published to Kafka by an idempotent producer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, NoCustomPartitioner, Producer, ProducerContext, PurgeConfig, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};

use super::{Batch, EVENT_ID_HEADER, LoggedEvent, Receipt, Refusal, SendError, Sink};

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
    producer: Mutex<Arc<Answered>>,
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
        let producer = config.create_with_context(Reporting).map_err(|source| KafkaSinkError::Client { source })?;
        Ok(Self { config, producer: Mutex::new(Arc::new(producer)) })
    }

    fn producer(&self) -> Arc<Answered> {
        self.producer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sink for KafkaSink {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, mut batch: Batch) {
        let producer = self.producer();
        while let Some((event, receipt)) = batch.next() {
            let Err((error, receipt)) = enqueue(&producer, event, receipt).await else { continue };
            receipt.failed(send_error(&error));
            // None may overtake it.
            while let Some((_, receipt)) = batch.next() {
                receipt.failed(match send_error(&error) {
                    SendError::Permanent { .. } => {
                        SendError::Permanent { reason: "not sent: an event before it was refused".into() }
                    }
                    unknown => unknown,
                });
            }
        }
    }

    /// Purges the producer and makes a new one: an idempotent producer whose messages were purged has a gap in its
    /// sequence and is of no further use.
    fn abandon(&self) {
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if producer.in_flight_count() == 0 && producer.client().fatal_error().is_none() {
            return;
        }
        match self.config.create_with_context(Reporting) {
            Ok(fresh) => {
                let old = std::mem::replace(&mut *producer, Arc::new(fresh));
                old.purge(PurgeConfig::default().queue().inflight());
                // Its end waits for its thread.
                std::thread::spawn(move || drop(old));
            }
            Err(error) => tracing::error!(%error, "no new producer could be made; the old one stays"),
        }
    }
}

/// A producer that answers each event's receipt from a thread of its own.
type Answered = ThreadedProducer<Reporting>;

/// Gives the broker's report to the event's receipt. A producer that ends drops its receipts, which then say that nothing is
/// known.
struct Reporting;

impl ClientContext for Reporting {}

impl ProducerContext<NoCustomPartitioner> for Reporting {
    type DeliveryOpaque = Box<Receipt>;

    fn delivery(&self, report: &DeliveryResult<'_>, receipt: Box<Receipt>) {
        match report {
            Ok(_) => receipt.published(),
            Err((error, _)) => receipt.failed(send_error(error)),
        }
    }
}

impl std::fmt::Debug for KafkaSink {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KafkaSink").finish_non_exhaustive()
    }
}

/// Hands one event to the producer, waiting while its queue is full.
async fn enqueue(producer: &Answered, event: &LoggedEvent, receipt: Receipt) -> Result<(), (KafkaError, Receipt)> {
    let mut record =
        BaseRecord::<[u8], [u8], _>::with_opaque_to(&event.topic, Box::new(receipt)).headers(headers(event));
    record.key = event.key.as_deref();
    record.payload = event.value.as_deref();
    record.partition = event.partition;
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                record = again;
                tokio::time::sleep(QUEUE_FULL_PAUSE).await;
            }
            Err((error, refused)) => return Err((error, *refused.delivery_opaque)),
        }
    }
}

/// The event id, then the event's own headers.
fn headers(event: &LoggedEvent) -> OwnedHeaders {
    let mut id = [0; 36];
    let id = Some(event.event_id.write_to(&mut id));
    let headers = OwnedHeaders::new_with_capacity(1).insert(Header { key: EVENT_ID_HEADER, value: id });
    event.headers.iter().fold(headers, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }))
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

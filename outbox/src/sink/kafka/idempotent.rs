//! Batches without transactions: pipelined, each event answered for by the broker's report.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{NoCustomPartitioner, Producer, ProducerContext, PurgeConfig, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};

use super::errors::{KafkaSinkError, send_error};
use super::record::record;
use super::topics::Topics;
use crate::sink::{Batch, LoggedEvent, Receipt, SendError};

/// How long a full producer queue is left to drain before the next event is offered.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(5);

/// The producers of a sink: one for all topics, and one for each smaller limit that topics have. librdkafka puts many messages
/// into a batch and never divides it again, so a batch must not become larger than what its topic takes.
pub(super) struct Idempotent {
    config: ClientConfig,
    batch_size: usize,
    producers: Mutex<Vec<OfSize>>,
}

/// A producer, and the largest batch that it makes.
struct OfSize {
    batch_size: usize,
    producer: Arc<Answering>,
}

/// A producer that answers each event's receipt from a thread of its own.
type Answering = ThreadedProducer<Reporting>;

impl Idempotent {
    pub(super) fn new(config: ClientConfig, batch_size: usize) -> Result<Self, KafkaSinkError> {
        let producer = producer(&config, batch_size).map_err(|source| KafkaSinkError::Client { source })?;
        Ok(Self { config, batch_size, producers: Mutex::new(vec![OfSize { batch_size, producer }]) })
    }

    pub(super) async fn send(&self, mut batch: Batch, topics: &Topics) {
        let mut current: Option<(String, Arc<Answering>)> = None;
        while let Some((event, receipt)) = batch.next() {
            if current.as_ref().is_none_or(|(topic, _)| *topic != event.topic) {
                match self.producer_for(topics.max_bytes(&event.topic)) {
                    Ok(producer) => current = Some((event.topic.clone(), producer)),
                    Err(error) => return receipt.failed(send_error(&error)),
                }
            }
            let Some((_, producer)) = &current else { return };
            let Err((error, receipt)) = enqueue(producer, event, receipt).await else { continue };
            let error = send_error(&error);
            receipt.failed(error.clone());
            // None of the others may overtake it.
            while let Some((_, receipt)) = batch.next() {
                receipt.failed(match &error {
                    SendError::Unknown { .. } => error.clone(),
                    _ => SendError::NotSent { reason: "an event before it was refused".into() },
                });
            }
        }
    }

    /// Purges what is in flight, and makes the next batch begin with new producers.
    pub(super) fn abandon(&self) {
        let in_use =
            |of: &mut OfSize| of.producer.in_flight_count() > 0 || of.producer.client().fatal_error().is_some();
        for old in self.producers().extract_if(.., in_use) {
            old.producer.purge(PurgeConfig::default().queue().inflight());
            // Its end waits for its thread.
            std::thread::spawn(move || drop(old));
        }
    }

    /// The producer for topics that take batches of `max_bytes`.
    fn producer_for(&self, max_bytes: Option<usize>) -> Result<Arc<Answering>, KafkaError> {
        let batch_size = max_bytes.map_or(self.batch_size, |most| most.min(self.batch_size)).max(1);
        let mut producers = self.producers();
        if let Some(known) = producers.iter().find(|known| known.batch_size == batch_size) {
            return Ok(known.producer.clone());
        }
        let producer = producer(&self.config, batch_size)?;
        producers.push(OfSize { batch_size, producer: producer.clone() });
        Ok(producer)
    }

    fn producers(&self) -> MutexGuard<'_, Vec<OfSize>> {
        self.producers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn producer(config: &ClientConfig, batch_size: usize) -> Result<Arc<Answering>, KafkaError> {
    let mut config = config.clone();
    config.set("batch.size", batch_size.to_string());
    config.create_with_context(Reporting).map(Arc::new)
}

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

/// Hands one event to the producer, waiting while its queue is full.
async fn enqueue(producer: &Answering, event: &LoggedEvent, receipt: Receipt) -> Result<(), (KafkaError, Receipt)> {
    let mut record = record(event, Box::new(receipt));
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

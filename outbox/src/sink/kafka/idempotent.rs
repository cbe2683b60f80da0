//! Batches without transactions: pipelined, each event answered for by the broker's report.

use std::collections::HashMap;
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

/// So many topics are remembered at least before those of which nothing is in flight are forgotten.
const TOPICS: usize = 1_000;
/// How long a full producer queue is left to drain before the next event is offered.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(5);

/// The producers of a sink: one for all topics, and one for each smaller limit that topics have. librdkafka puts many messages
/// into a batch and never divides it again, so a batch must not become larger than what its topic takes.
///
/// Two producers keep no order between them: a topic changes its producer only when nothing of it is in flight.
pub(super) struct Idempotent {
    config: ClientConfig,
    batch_size: usize,
    producers: Mutex<Producers>,
}

#[derive(Default)]
struct Producers {
    all: Vec<OfSize>,
    /// Where the events of a topic go.
    of_topics: HashMap<String, OfTopic>,
}

/// A topic's producer, by the size of its batches.
struct OfTopic {
    batch_size: usize,
    /// One more holds it for each event in flight.
    in_flight: Arc<()>,
}

impl OfTopic {
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.in_flight) == 1
    }
}

/// What comes back with the broker's report.
type Opaque = Box<(Receipt, Arc<()>)>;

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
        let producers = Producers { all: vec![OfSize { batch_size, producer }], ..Producers::default() };
        Ok(Self { config, batch_size, producers: Mutex::new(producers) })
    }

    pub(super) async fn send(&self, mut batch: Batch, topics: &Topics) {
        let mut current: Option<(String, Arc<Answering>, Arc<()>)> = None;
        while let Some((event, receipt)) = batch.next() {
            if current.as_ref().is_none_or(|(topic, ..)| *topic != event.topic) {
                match self.producer_for(&event.topic, topics.max_bytes(&event.topic)) {
                    Ok((producer, in_flight)) => current = Some((event.topic.clone(), producer, in_flight)),
                    Err(error) => return receipt.failed(send_error(&error)),
                }
            }
            let Some((_, producer, in_flight)) = &current else { return };
            let Err((error, receipt)) = enqueue(producer, event, Box::new((receipt, in_flight.clone()))).await else {
                continue;
            };
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
        let mut producers = self.producers();
        // What is still in flight may land, but nothing waits for it: it is sent again, all of it.
        producers.of_topics.clear();
        for old in producers.all.extract_if(.., in_use) {
            old.producer.purge(PurgeConfig::default().queue().inflight());
            // Its end waits for its thread.
            std::thread::spawn(move || drop(old));
        }
    }

    /// The producer for a topic that takes batches of `max_bytes`; while events of it are in flight, theirs. Also what counts
    /// these.
    fn producer_for(&self, topic: &str, max_bytes: Option<usize>) -> Result<(Arc<Answering>, Arc<()>), KafkaError> {
        let batch_size = max_bytes.map_or(self.batch_size, |most| most.min(self.batch_size)).max(1);
        let mut producers = self.producers();
        let Producers { all, of_topics } = &mut *producers;
        if of_topics.len() >= TOPICS && !of_topics.contains_key(topic) {
            of_topics.retain(|_, of| !of.is_idle());
        }
        if !of_topics.contains_key(topic) {
            of_topics.insert(topic.to_owned(), OfTopic { batch_size, in_flight: Arc::default() });
        }
        let Some(of_topic) = of_topics.get_mut(topic) else { unreachable!("it was just inserted") };
        if of_topic.is_idle() {
            of_topic.batch_size = batch_size;
        }
        let (batch_size, in_flight) = (of_topic.batch_size, of_topic.in_flight.clone());
        if let Some(known) = all.iter().find(|known| known.batch_size == batch_size) {
            return Ok((known.producer.clone(), in_flight));
        }
        let producer = producer(&self.config, batch_size)?;
        all.push(OfSize { batch_size, producer: producer.clone() });
        Ok((producer, in_flight))
    }

    fn producers(&self) -> MutexGuard<'_, Producers> {
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
    type DeliveryOpaque = Opaque;

    fn delivery(&self, report: &DeliveryResult<'_>, opaque: Opaque) {
        let (receipt, _in_flight) = *opaque;
        match report {
            Ok(_) => receipt.published(),
            Err((error, _)) => receipt.failed(send_error(error)),
        }
    }
}

/// Hands one event to the producer, waiting while its queue is full.
async fn enqueue(producer: &Answering, event: &LoggedEvent, opaque: Opaque) -> Result<(), (KafkaError, Receipt)> {
    let mut record = record(event, opaque);
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                record = again;
                tokio::time::sleep(QUEUE_FULL_PAUSE).await;
            }
            Err((error, refused)) => return Err((error, refused.delivery_opaque.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use leastlock_testkit::broker::Broker;

    use super::*;
    use crate::event::EventId;
    use crate::headers::Headers;
    use crate::relay::cursor::{Cursor, Page, Position};
    use crate::sink::Reports;
    use crate::sink::kafka::topics::Facts;

    fn batch(topic: &str, keys: &[Option<&str>], reports: &Arc<Reports>) -> Batch {
        let event = |(id, key): (i64, Option<&str>)| LoggedEvent {
            shard: 0,
            id,
            event_id: EventId::new(),
            topic: topic.to_owned(),
            key: key.map(|key| key.as_bytes().to_vec()),
            value: None,
            headers: Headers::default(),
            partition: None,
            age_ms: 0,
            unreadable: None,
        };
        let position = Position { done: String::new(), target: None, last_id: 0 };
        let events = (1..).zip(keys.iter().copied()).map(event).collect();
        let page = Page::of_cursor(&Cursor { shard: 0, epoch: 1, position }, events);
        Batch::new(Arc::new(page), 0..keys.len(), 1, 0, reports)
    }

    #[tokio::test]
    async fn b7_broker_that_finds_one_record_invalid_makes_nothing_unknown_of_the_others() {
        let broker = Broker::real();
        let topic = broker.topic(1).await;
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", broker.bootstrap());
        broker.set(&topic, "cleanup.policy", "compact").await;
        // So long that it becomes one batch.
        config.set("linger.ms", "500").set("enable.idempotence", "true");
        let (sink, topics) =
            (Idempotent::new(config.clone(), 1_000_000).expect("valid settings"), Topics::new(&config));
        let reports = Arc::default();
        sink.send(batch(&topic, &[Some("a"), None, Some("b")], &reports), &topics).await;
        let mut answers = BTreeMap::new();
        let answered = async {
            while answers.len() < 3 {
                reports.some().await;
                answers.extend(reports.take(Vec::new()).into_iter().map(|report| (report.first, report.outcome)));
            }
        };
        tokio::time::timeout(Duration::from_mins(1), answered).await.expect("an answer for each event");
        let answers: Vec<_> = answers.into_values().collect();
        // What the broker says of the others differs by its version: it may name the record, or none.
        let refused = |answer| matches!(answer, &Err(SendError::Permanent { .. } | SendError::NotSent { .. }));
        assert!(answers.iter().all(refused), "{answers:?}");
        assert!(matches!(answers[1], Err(SendError::Permanent { .. })), "{answers:?}");
    }

    #[tokio::test]
    async fn b19_topic_keeps_its_producer_while_events_of_it_are_in_flight() {
        let mut config = ClientConfig::new();
        // Nobody is there, so what is sent stays in flight.
        config.set("bootstrap.servers", "127.0.0.1:1").set("message.timeout.ms", "0");
        let (sink, topics) =
            (Idempotent::new(config.clone(), 1_000_000).expect("valid settings"), Topics::new(&config));
        let reports = Arc::default();
        // The size of its producer's batches, and how many events are in flight.
        let in_flight = || {
            let of_topic = &sink.producers().of_topics["t"];
            (of_topic.batch_size, Arc::strong_count(&of_topic.in_flight) - 1)
        };
        let sizes = || -> Vec<usize> { sink.producers().all.iter().map(|of| of.batch_size).collect() };
        let takes = |max_bytes| topics.set("t", Facts { max_bytes: Some(max_bytes), ..Facts::default() });
        takes(2_000);
        sink.send(batch("t", &[Some("k")], &reports), &topics).await;
        assert_eq!((in_flight(), sizes()), ((2_000, 1), vec![1_000_000, 2_000]));
        // The second must not pass the first by way of another producer.
        takes(500);
        sink.send(batch("t", &[Some("k")], &reports), &topics).await;
        assert_eq!((in_flight(), sizes()), ((2_000, 2), vec![1_000_000, 2_000]));
        sink.abandon();
        sink.send(batch("t", &[Some("k")], &reports), &topics).await;
        assert_eq!(in_flight(), (500, 1));
        sink.abandon();
    }
}

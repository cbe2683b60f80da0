//! A producer as one uses it by hand where throughput counts: reports are counted on librdkafka's own thread, no future an
//! event. What it promises is what `KafkaSink` asks for as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::ensure;
use leastlock_outbox::sink::EVENT_ID_HEADER;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};

/// How long a full queue is left to drain.
const QUEUE_FULL_PAUSE: Duration = Duration::from_micros(500);
const FLUSH_LIMIT: Duration = Duration::from_mins(2);

/// Counts the reports.
#[derive(Debug, Clone, Default)]
struct Reports {
    acked: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, report: &DeliveryResult<'_>, (): ()) {
        let count = if report.is_ok() { &self.acked } else { &self.failed };
        count.fetch_add(1, Relaxed);
    }
}

/// An idempotent producer.
pub(crate) struct Plain {
    producer: ThreadedProducer<Reports>,
    reports: Reports,
    sent: u64,
}

impl Plain {
    pub(super) fn to(brokers: &str) -> Result<Self, KafkaError> {
        let reports = Reports::default();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("enable.idempotence", "true").set("acks", "all");
        config.set("message.timeout.ms", "0").set("partitioner", "murmur2_random");
        Ok(Self { producer: config.create_with_context(reports.clone())?, reports, sent: 0 })
    }

    /// Hands a record over, waiting while the queue is full. Blocks its thread.
    pub(super) fn send(&mut self, topic: &str, key: &[u8], value: &[u8], event_id: &str) -> anyhow::Result<()> {
        let headers = OwnedHeaders::new().insert(Header { key: EVENT_ID_HEADER, value: Some(event_id) });
        let mut record = BaseRecord::to(topic).key(key).payload(value).headers(headers);
        loop {
            match self.producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                    record = again;
                    std::thread::sleep(QUEUE_FULL_PAUSE);
                }
                Err((error, _)) => return Err(error.into()),
            }
        }
        self.sent += 1;
        Ok(())
    }

    /// Waits until every record is acknowledged, without lingering. Blocks its thread.
    pub(super) fn flush(&self) -> anyhow::Result<()> {
        self.producer.flush(FLUSH_LIMIT)?;
        let (acked, failed) = (self.reports.acked.load(Relaxed), self.reports.failed.load(Relaxed));
        ensure!(
            failed == 0 && acked == self.sent,
            "{acked} of {} records are acknowledged, {failed} failed",
            self.sent
        );
        Ok(())
    }
}

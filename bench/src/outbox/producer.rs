//! A producer as one uses it by hand where throughput counts: reports are counted on librdkafka's own thread, no future an
//! event. What it promises is what `KafkaSink` asks for as well.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::ensure;
use leastlock_outbox::sink::EVENT_ID_HEADER;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, ProducerContext, ThreadedProducer};

/// How long a full queue is left to drain.
const QUEUE_FULL_PAUSE: Duration = Duration::from_micros(500);
const FLUSH_LIMIT: Duration = Duration::from_mins(2);

/// Counts the reports.
#[derive(Debug, Clone, Default)]
struct Reports(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    acked: AtomicU64,
    failed: AtomicU64,
    /// Told when all that was sent has its report.
    idle: Condvar,
    waiting: Mutex<()>,
}

impl Counts {
    fn are_whole(&self) -> bool {
        self.acked.load(SeqCst) + self.failed.load(SeqCst) == self.sent.load(SeqCst)
    }
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, report: &DeliveryResult<'_>, (): ()) {
        let count = if report.is_ok() { &self.0.acked } else { &self.0.failed };
        count.fetch_add(1, SeqCst);
        if self.0.are_whole() {
            let _waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            self.0.idle.notify_all();
        }
    }
}

/// An idempotent producer.
pub(crate) struct Plain {
    producer: ThreadedProducer<Reports>,
    reports: Reports,
}

impl Plain {
    pub(super) fn to(brokers: &str) -> Result<Self, KafkaError> {
        let reports = Reports::default();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("enable.idempotence", "true").set("acks", "all");
        config.set("message.timeout.ms", "0").set("partitioner", "murmur2_random");
        // A pass waits for its last record, so nothing is gained by lingering.
        config.set("linger.ms", "0");
        Ok(Self { producer: config.create_with_context(reports.clone())?, reports })
    }

    /// Hands a record over, waiting while the queue is full. Blocks its thread.
    pub(super) fn send(&mut self, topic: &str, key: &[u8], value: &[u8], event_id: &str) -> anyhow::Result<()> {
        let headers = OwnedHeaders::new().insert(Header { key: EVENT_ID_HEADER, value: Some(event_id) });
        let mut record = BaseRecord::to(topic).key(key).payload(value).headers(headers);
        self.reports.0.sent.fetch_add(1, SeqCst);
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
        Ok(())
    }

    /// Waits until every record is acknowledged. librdkafka's own flush looks only ten times a second here. Blocks its thread.
    pub(super) fn flush(&self) -> anyhow::Result<()> {
        let (counts, deadline) = (&self.reports.0, Instant::now() + FLUSH_LIMIT);
        let mut waiting = counts.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while !counts.are_whole() && Instant::now() < deadline {
            let waited = counts.idle.wait_timeout(waiting, Duration::from_secs(1));
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let [sent, acked, failed] = [&counts.sent, &counts.acked, &counts.failed].map(|count| count.load(SeqCst));
        ensure!(failed == 0 && acked == sent, "{acked} of {sent} records are acknowledged, {failed} failed");
        Ok(())
    }
}

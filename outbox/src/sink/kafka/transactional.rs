//! Each batch in a transaction, under an id of its shard's own.
//!
//! A shard's producer is made when its first batch of an epoch comes; beginning (`init_transactions`) is what fences the
//! previous owner's, whose open transaction the broker aborts. A producer never begins again by itself: only the relay, which
//! has just looked at its lease, causes a new one to be made. A relay that is stopped between that look and the beginning can
//! still fence its successor when it goes on; the successor's batch is then unknown, and its next producer fences in turn.
//! Events may be repeated that way; none is lost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{NoCustomPartitioner, Producer, ProducerContext, PurgeConfig, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, ClientContext};
use tokio::sync::mpsc;

use super::errors::{KafkaSinkError, send_error};
use super::record::record;
use crate::sink::{Batch, SendError};

#[cfg(test)]
mod tests;

/// How long the broker may take to begin, commit or abort, before the batch's fate counts as unknown.
const COORDINATOR_LIMIT: Duration = Duration::from_secs(30);
/// How long an abort may take.
const ABORT_LIMIT: Duration = Duration::from_secs(1);
/// How long a full producer queue is left to drain before the next event is offered.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(5);
/// How long reports are collected before they are looked at.
const REPORT_PAUSE: Duration = Duration::from_millis(1);

/// The producers of a sink, by shard.
pub(super) struct Transactional {
    config: ClientConfig,
    id_prefix: String,
    shards: Mutex<HashMap<i64, Shard>>,
}

/// A thread of its own takes the reports, which a commit and an abort wait for.
type Transacting = ThreadedProducer<Refusals>;

/// A shard's producer, on a thread of its own: the calls that end a transaction block.
struct Shard {
    epoch: i64,
    /// The relay bounds what is in flight. To wait for room here would keep every other shard waiting too.
    batches: mpsc::UnboundedSender<Batch>,
    producer: Arc<Transacting>,
    /// It begins no further transaction.
    ended: Arc<AtomicBool>,
}

impl Shard {
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.producer.purge(PurgeConfig::default().queue().inflight());
    }
}

impl Transactional {
    pub(super) fn new(config: ClientConfig, id_prefix: String) -> Result<Self, KafkaSinkError> {
        // Whether librdkafka takes the settings is told here, not at the first batch.
        let sink = Self { config, id_prefix, shards: Mutex::default() };
        sink.producer(0).map(drop).map_err(|source| KafkaSinkError::Client { source })?;
        Ok(sink)
    }

    pub(super) fn send(&self, batch: Batch) {
        let batches = match self.shard(batch.shard(), batch.epoch()) {
            Ok(batches) => batches,
            Err(error) => return batch.unknown(error.to_string()),
        };
        if let Err(mpsc::error::SendError(not_sent)) = batches.send(batch) {
            refuse(not_sent, &[]);
        }
    }

    /// Ends every producer; what is in flight of its transaction is aborted when the next one of the shard begins.
    pub(super) fn abandon(&self) {
        self.shards().drain().for_each(|(_, shard)| shard.end());
    }

    /// Where to send a shard's batches of an epoch.
    fn shard(&self, shard: i64, epoch: i64) -> Result<mpsc::UnboundedSender<Batch>, KafkaError> {
        let mut shards = self.shards();
        if let Some(known) = shards.get(&shard).filter(|known| known.epoch == epoch && !known.batches.is_closed()) {
            return Ok(known.batches.clone());
        }
        let producer = Arc::new(self.producer(shard)?);
        let (batches, waiting) = mpsc::unbounded_channel();
        let ended = Arc::new(AtomicBool::new(false));
        let worker = (producer.clone(), ended.clone());
        std::thread::spawn(move || publish(&worker.0, &worker.1, waiting));
        let before = shards.insert(shard, Shard { epoch, batches: batches.clone(), producer, ended });
        before.inspect(Shard::end);
        Ok(batches)
    }

    fn producer(&self, shard: i64) -> Result<Transacting, KafkaError> {
        let mut config = self.config.clone();
        config.set("transactional.id", format!("{}-{shard}", self.id_prefix));
        config.create_with_context(Refusals::default())
    }

    fn shards(&self) -> MutexGuard<'_, HashMap<i64, Shard>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Publishes batches until one fails for another reason than its own events. What waits then is dropped, and says so.
fn publish(producer: &Transacting, ended: &AtomicBool, mut waiting: mpsc::UnboundedReceiver<Batch>) {
    let mut begun = producer.init_transactions(COORDINATOR_LIMIT);
    while let Some(batch) = waiting.blocking_recv() {
        if ended.load(Ordering::Acquire) {
            return;
        }
        let outcome = begun.and_then(|()| transaction(producer, &batch));
        begun = Ok(());
        match outcome {
            Ok(refusals) if refusals.is_empty() => batch.published(),
            // None of the batch is published, and the relay sends each again alone: by a new producer.
            Ok(refusals) => {
                waiting.close();
                refuse(batch, &refusals);
                while let Ok(behind) = waiting.try_recv() {
                    refuse(behind, &[]);
                }
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "a transaction of the outbox relay failed");
                return batch.unknown(error.to_string());
            }
        }
    }
}

/// Publishes a batch in a transaction; answers the events that were refused, if that is why it was aborted.
fn transaction(producer: &Transacting, batch: &Batch) -> Result<Vec<(usize, KafkaError)>, KafkaError> {
    producer.context().take();
    producer.begin_transaction()?;
    let mut refused = enqueue(producer, batch)?;
    if refused.is_empty() {
        refused = reports(producer)?;
    }
    if refused.is_empty() {
        producer.commit_transaction(COORDINATOR_LIMIT)?;
    } else if let Err(error) = producer.abort_transaction(ABORT_LIMIT) {
        // librdkafka may wait for a message that it will never send; the next producer of the shard aborts the transaction.
        tracing::debug!(%error, "a transaction was not aborted");
    }
    Ok(refused)
}

/// Waits for the reports of all events, or for a refusal: what is behind one in its partition gets no report before the abort.
/// Answers the refusals.
fn reports(producer: &Transacting) -> Result<Vec<(usize, KafkaError)>, KafkaError> {
    let until = Instant::now() + COORDINATOR_LIMIT;
    while producer.in_flight_count() > 0 {
        std::thread::sleep(REPORT_PAUSE);
        let failed = producer.context().take();
        if failed.iter().any(|(_, error)| is_refusal(error)) {
            return Ok(failed);
        }
        if let Some((_, error)) = failed.into_iter().next() {
            return Err(error);
        }
        if Instant::now() >= until {
            return Err(KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut));
        }
    }
    Ok(Vec::new())
}

/// Hands the events over; the refusal of the first that librdkafka itself does not take, if there is one.
fn enqueue(producer: &Transacting, batch: &Batch) -> Result<Vec<(usize, KafkaError)>, KafkaError> {
    for (index, event) in batch.events().iter().enumerate() {
        let mut next = record(event, index);
        loop {
            match producer.send(next) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                    next = again;
                    std::thread::sleep(QUEUE_FULL_PAUSE);
                }
                Err((error, _)) if is_refusal(&error) => return Ok(vec![(index, error)]),
                Err((error, _)) => return Err(error),
            }
        }
    }
    Ok(Vec::new())
}

fn refuse(mut batch: Batch, refusals: &[(usize, KafkaError)]) {
    let mut index = 0;
    while let Some((_, receipt)) = batch.next() {
        let own = refusals.iter().find(|(refused, _)| *refused == index);
        receipt.failed(match own {
            Some((_, error)) if is_refusal(error) => send_error(error),
            _ => SendError::NotSent { reason: "another event of its shard was refused".into() },
        });
        index += 1;
    }
}

/// Whether it speaks of this event, or of another one that its batch was refused for; not of the broker.
fn is_refusal(error: &KafkaError) -> bool {
    !matches!(send_error(error), SendError::Unknown { .. })
}

/// What the broker refused of the transaction that is open, by place in its batch.
#[derive(Default)]
struct Refusals(Mutex<Vec<(usize, KafkaError)>>);

impl Refusals {
    fn take(&self) -> Vec<(usize, KafkaError)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientContext for Refusals {}

impl ProducerContext<NoCustomPartitioner> for Refusals {
    type DeliveryOpaque = usize;

    fn delivery(&self, report: &DeliveryResult<'_>, index: usize) {
        if let Err((error, _)) = report {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((index, error.clone()));
        }
    }
}

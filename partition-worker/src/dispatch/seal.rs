//! Sealing what Kafka has assigned, and finding out where a new group starts.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use super::Dispatch;
use crate::assignment::Batch;
use crate::error::Error;
use crate::handler::Handler;
use crate::partition::TopicPartition;
use crate::polling::{Order, Start};
use crate::progress::{Seal, Sealed};
use crate::settings::Reset;
use crate::sql::WorkerSql;

/// Seals that run at the same time. Each takes a connection, and one more while it waits.
const AT_A_TIME: usize = 4;

/// One question to Kafka about offsets.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
const ASK_AGAIN: Duration = Duration::from_millis(500);

impl<DB: WorkerSql, H: Handler<DB>> Dispatch<DB, H> {
    /// Seals the partitions of an assignment, and tells the polling thread of each. It is told nothing of a partition that was
    /// taken away meanwhile.
    pub(super) async fn seal_all(self: Arc<Self>, batch: Batch, partitions: Vec<(TopicPartition, CancellationToken)>) {
        let seals = stream::iter(partitions).map(|(partition, cancel)| {
            let this = &self;
            async move {
                let sealed = tokio::select! {
                    biased;
                    () = cancel.cancelled() => return,
                    sealed = this.seal_one(&partition) => sealed,
                };
                match sealed {
                    Ok(start) => this.order(Order::Sealed { batch, partition, start }),
                    Err(error) => this.fail(error),
                }
            }
        });
        seals.buffer_unordered(AT_A_TIME).for_each(|()| async {}).await;
    }

    /// Seals a partition, from the first step again for as long as the database fails in a way that passes: after an anchor
    /// whose reply was lost, the seal answers what was fixed.
    async fn seal_one(&self, partition: &TopicPartition) -> Result<Option<Start>, Error> {
        let mut attempt = 0;
        loop {
            match self.try_seal(partition).await {
                Err(error) if error.is_retryable::<DB>() => {
                    tracing::warn!(%partition, %error, attempt, "a partition is sealed again");
                    tokio::time::sleep(self.settings.backoff.delay(attempt)).await;
                    attempt = attempt.saturating_add(1);
                }
                sealed => return sealed,
            }
        }
    }

    async fn try_seal(&self, partition: &TopicPartition) -> Result<Option<Start>, Error> {
        let failed = |operation| {
            let partition = partition.clone();
            move |source| Error::Database { operation, partition, source }
        };
        let Seal::Sealed(sealed) = self.progress.seal(partition).await.map_err(failed("sealing"))? else {
            tracing::warn!(%partition, "another worker has sealed this partition meanwhile; it is not taken");
            return Ok(None);
        };
        let Sealed { epoch, next_offset, finished, .. } = sealed;
        if let Some(offset) = next_offset {
            tracing::debug!(%partition, %epoch, offset, finished = finished.len(), "sealed");
            return Ok(Some(Start { epoch, offset, finished }));
        }
        let offset = self.first_offset(partition).await;
        let anchored = self.progress.anchor(partition, epoch, offset).await.map_err(failed("anchoring"))?;
        tracing::debug!(%partition, %epoch, offset, anchored, "sealed for the first time");
        Ok(anchored.then_some(Start { epoch, offset, finished }))
    }

    /// Where the group starts that has no offset of its own in the database: at what it has committed to Kafka, else as
    /// `auto.offset.reset` says. It is asked for until there is an answer.
    async fn first_offset(&self, partition: &TopicPartition) -> i64 {
        loop {
            let (kafka, reset, asked) = (self.kafka.clone(), self.reset, partition.clone());
            match tokio::task::spawn_blocking(move || ask_kafka(&kafka, reset, &asked)).await {
                Ok(Ok(offset)) => return offset,
                Ok(Err(error)) => tracing::warn!(%partition, %error, "Kafka does not say where the group starts"),
                Err(error) => tracing::warn!(%partition, %error, "asking where the group starts was interrupted"),
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }
}

/// Asked through a client of its own, which is no member of the group, so that the polling thread is not held up.
fn ask_kafka(kafka: &ClientConfig, reset: Reset, partition: &TopicPartition) -> KafkaResult<i64> {
    let mut config = kafka.clone();
    for membership in ["group.protocol", "group.instance.id", "group.remote.assignor", "statistics.interval.ms"] {
        config.remove(membership);
    }
    let client: BaseConsumer = config.create()?;
    let mut list = TopicPartitionList::new();
    list.add_partition(partition.topic(), partition.partition());
    let committed = client.committed_offsets(list, ASK_TIMEOUT)?;
    for element in committed.elements() {
        element.error()?;
        if let Offset::Offset(offset) = element.offset() {
            return Ok(offset);
        }
    }
    let (low, high) = client.fetch_watermarks(partition.topic(), partition.partition(), ASK_TIMEOUT)?;
    Ok(match reset {
        Reset::Earliest => low,
        Reset::Latest => high,
    })
}

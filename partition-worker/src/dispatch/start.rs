//! Where a group starts in a partition, as far as Kafka knows.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::partition::TopicPartition;
use crate::runs::Commit;
use crate::settings::Reset;

/// One question to Kafka about offsets.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Knows where a group starts that has no progress elsewhere.
pub(crate) struct Origin {
    kafka: ClientConfig,
    reset: Reset,
}

impl Origin {
    pub(crate) const fn new(kafka: ClientConfig, reset: Reset) -> Self {
        Self { kafka, reset }
    }

    /// Where the group starts: at what it has committed to Kafka, else as `auto.offset.reset` says. It is asked for until
    /// there is an answer.
    pub(super) async fn find(&self, partition: &TopicPartition) -> Commit {
        loop {
            let (kafka, reset, asked) = (self.kafka.clone(), self.reset, partition.clone());
            match tokio::task::spawn_blocking(move || ask_kafka(&kafka, reset, &asked)).await {
                Ok(Ok(committed)) => return committed,
                Ok(Err(error)) => tracing::warn!(%partition, %error, "Kafka does not say where the group starts"),
                Err(error) => tracing::warn!(%partition, %error, "asking where the group starts was interrupted"),
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }
}

/// Asked through a client of its own, which is no member of the group, so that the polling thread is not held up.
fn ask_kafka(kafka: &ClientConfig, reset: Reset, partition: &TopicPartition) -> KafkaResult<Commit> {
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
            return Ok(Commit::read(offset, element.metadata()));
        }
    }
    let (low, high) = client.fetch_watermarks(partition.topic(), partition.partition(), ASK_TIMEOUT)?;
    let start = match reset {
        Reset::Earliest => low,
        Reset::Latest => high,
    };
    Ok(Commit::read(start, ""))
}

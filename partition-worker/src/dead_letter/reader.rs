//! Copies read back from where they were noted.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::{ClientConfig, Message};

use super::origin::original;
use crate::record::Record;

/// How long one call may take.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
/// A gap up to this is read through; beyond it, a seek is cheaper.
const GAP: i64 = 500;
/// As much is read in one call, in bytes of values.
const AT_A_TIME: usize = 8 << 20;

/// A copy, if its topic still has it.
pub(super) type Copy = Option<Record>;

/// Reads copies back as the records that they were, in the order asked for; perhaps not all, but at least the first. `None`: the
/// topic does not have it any more.
///
/// # Cancel safety
/// It only reads; dropped, it goes on for a while in the background.
pub(super) async fn read(kafka: &ClientConfig, topic: &str, places: Vec<(i32, i64)>) -> KafkaResult<Vec<Copy>> {
    let mut config = kafka.clone();
    // It is no member of the group.
    for membership in ["group.protocol", "group.instance.id", "group.remote.assignor", "statistics.interval.ms"] {
        config.remove(membership);
    }
    config.set("auto.offset.reset", "error").set("enable.partition.eof", "true");
    let topic = topic.to_owned();
    let read = tokio::task::spawn_blocking(move || Reader::new(&config, topic)?.read(&places));
    // It ends without an answer only if it panics or the runtime ends.
    read.await.unwrap_or(Err(KafkaError::Canceled))
}

struct Reader {
    consumer: BaseConsumer,
    topic: String,
    deadline: Instant,
    /// The partition that is being read, and the next offset of it.
    at: Option<(i32, i64)>,
}

impl Reader {
    fn new(config: &ClientConfig, topic: String) -> KafkaResult<Self> {
        Ok(Self { consumer: config.create()?, topic, deadline: Instant::now() + READ_TIMEOUT, at: None })
    }

    fn read(mut self, places: &[(i32, i64)]) -> KafkaResult<Vec<Copy>> {
        let (mut copies, mut bytes) = (Vec::with_capacity(places.len()), 0);
        for &place in places {
            let copy = match self.copy(place) {
                Ok(copy) => copy,
                Err(error) if copies.is_empty() => return Err(error),
                // What has been read is worth having: whoever asks for the rest would else be read the same, and be as late.
                Err(_) => break,
            };
            bytes += copy.as_ref().and_then(Record::value).map_or(0, <[u8]>::len);
            copies.push(copy);
            if bytes >= AT_A_TIME {
                break;
            }
        }
        Ok(copies)
    }

    fn copy(&mut self, (partition, offset): (i32, i64)) -> KafkaResult<Copy> {
        if self.go_to(partition, offset)? { self.take(partition, offset) } else { Ok(None) }
    }

    /// Goes to a place; answers whether the log has it.
    fn go_to(&mut self, partition: i32, offset: i64) -> KafkaResult<bool> {
        if self.at.is_some_and(|(at, next)| at == partition && (next..=next + GAP).contains(&offset)) {
            return Ok(true);
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        let (low, high) = self.consumer.fetch_watermarks(&self.topic, partition, left)?;
        if !(low..high).contains(&offset) {
            return Ok(false);
        }
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, partition, Offset::Offset(offset))?;
        self.consumer.assign(&list)?;
        self.at = Some((partition, offset));
        Ok(true)
    }

    fn take(&mut self, partition: i32, offset: i64) -> KafkaResult<Copy> {
        loop {
            let is_late = Instant::now() >= self.deadline;
            match self.consumer.poll(POLL) {
                Some(Ok(message)) if message.partition() == partition => {
                    let found = message.offset();
                    self.at = Some((partition, found + 1));
                    if found == offset {
                        return Ok(original(&owned(&message)));
                    }
                    if found > offset {
                        // It is gone; this one is perhaps the next that is wanted.
                        self.at = None;
                        return Ok(None);
                    }
                }
                Some(Err(
                    KafkaError::PartitionEOF(_) | KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset),
                )) => {
                    self.at = None;
                    return Ok(None);
                }
                Some(Err(error)) if is_late => return Err(error),
                None if is_late => return Err(KafkaError::MessageConsumption(RDKafkaErrorCode::RequestTimedOut)),
                Some(_) | None => {}
            }
        }
    }
}

fn owned(message: &BorrowedMessage<'_>) -> Record {
    let mut record = Record::new(message.topic(), message.partition(), message.offset());
    if let Some(key) = message.key() {
        record = record.with_key(key);
    }
    if let Some(value) = message.payload() {
        record = record.with_value(value);
    }
    for header in message.headers().into_iter().flat_map(Headers::iter) {
        record = record.with_header(header.key, header.value.map(<[u8]>::to_vec));
    }
    match message.timestamp().to_millis() {
        Some(timestamp_ms) => record.with_timestamp_ms(timestamp_ms),
        None => record,
    }
}

#[cfg(test)]
mod tests {
    use leastlock_testkit::broker::Broker;
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

    use super::*;

    const WELL: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;
    const REFUSED: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;

    /// Two copies, each in a partition of its own; answers how many were read while the broker answers so when it is asked how far a
    /// log reaches, twice for each.
    async fn read(answers: &[RDKafkaRespErr]) -> KafkaResult<usize> {
        let broker = Broker::mock();
        let topic = broker.topic(2).await;
        for partition in 0..2 {
            broker.produce_to(&topic, partition, "85123A", "1").await;
        }
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", broker.bootstrap()).set("auto.offset.reset", "error");
        config.set("group.id", "reader").set("enable.partition.eof", "true");
        broker.mock_cluster().expect("the mock cluster").request_errors(RDKafkaApiKey::ListOffsets, answers);
        let read = tokio::task::spawn_blocking(move || Reader::new(&config, topic)?.read(&[(0, 0), (1, 0)]));
        read.await.expect("no panic").map(|copies| copies.len())
    }

    #[tokio::test]
    async fn what_was_read_before_an_error_is_kept() {
        assert_eq!(read(&[WELL, WELL, REFUSED, REFUSED]).await, Ok(1));
        assert_eq!(read(&[]).await, Ok(2));
    }

    #[tokio::test]
    async fn an_error_before_anything_was_read_is_answered() {
        assert!(read(&[REFUSED, REFUSED]).await.is_err());
    }
}

//! From librdkafka's message, which lives in the consumer's memory, to an owned record.

use std::collections::HashMap;

use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Headers};

use crate::partition::TopicPartition;
use crate::record::Record;

/// Copies a message. `sources` holds the names met before, so that a record does not allocate one.
pub(super) fn record(sources: &mut Sources, message: &BorrowedMessage<'_>) -> Record {
    let (topic, number) = (message.topic(), message.partition());
    let known = sources.get(topic).and_then(|partitions| partitions.get(&number)).cloned();
    let source = known.unwrap_or_else(|| {
        let new = TopicPartition::new(topic, number);
        sources.entry(topic.to_owned()).or_default().insert(number, new.clone());
        new
    });
    let mut record = Record::at(source, message.offset());
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

pub(super) type Sources = HashMap<String, HashMap<i32, TopicPartition>>;

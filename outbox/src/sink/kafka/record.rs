//! An event as a record of Kafka's.

use rdkafka::producer::BaseRecord;
use rdkafka::util::IntoOpaque;

use crate::sink::LoggedEvent;
use crate::sink::headers::{id_header, kafka_headers};

/// What a record batch takes besides its records (Kafka's message format, version 2).
const BATCH_OVERHEAD: usize = 61;
/// Attributes, and the differences of time and offset to the batch's first record, which are zero where there is one only.
const RECORD_OVERHEAD: usize = 3;

/// What librdkafka adds to key, value and headers: the most that the record's lengths, time and offset can take.
const MESSAGE_OVERHEAD: usize = 36;

/// The record, to be answered for by `opaque`.
pub(super) fn record<O: IntoOpaque>(event: &LoggedEvent, opaque: O) -> BaseRecord<'_, [u8], [u8], O> {
    let mut record = BaseRecord::with_opaque_to(&event.topic, opaque).headers(kafka_headers(event));
    record.key = event.key.as_deref();
    record.payload = event.value.as_deref();
    record.partition = event.partition;
    record
}

/// Bytes of the message by librdkafka's count, which assumes the longest lengths: what its `message.max.bytes` is compared with.
pub(super) fn message_bytes(event: &LoggedEvent) -> usize {
    let bytes = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
    MESSAGE_OVERHEAD + bytes(&event.key) + bytes(&event.value) + headers_bytes(event)
}

/// Bytes of a batch that holds this event alone, not compressed: what the topic's `max.message.bytes` is compared with.
pub(super) fn batch_bytes(event: &LoggedEvent) -> usize {
    let field = |bytes: Option<usize>| bytes.map_or(1, |bytes| varint(bytes) + bytes);
    let count = varint(1 + event.headers.len());
    let body = RECORD_OVERHEAD
        + field(event.key.as_ref().map(Vec::len))
        + field(event.value.as_ref().map(Vec::len))
        + count
        + headers_bytes(event);
    BATCH_OVERHEAD + varint(body) + body
}

fn headers_bytes(event: &LoggedEvent) -> usize {
    let field = |bytes: usize| varint(bytes) + bytes;
    // No value is a length of -1.
    let value = |value: Option<&[u8]>| value.map_or(1, |value| field(value.len()));
    let own: usize = event.headers.iter().map(|(name, bytes)| field(name.len()) + value(bytes)).sum();
    own + field(id_header(event).len()) + field(36)
}

/// Bytes of a length as a signed number of variable length (zigzag, seven bits a byte).
fn varint(length: usize) -> usize {
    let bits = usize::BITS - (length << 1).leading_zeros();
    (bits.div_ceil(7) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_seven_bits_a_byte_one_of_them_for_the_sign() {
        let cases = [(0, 1), (63, 1), (64, 2), (8_191, 2), (8_192, 3), (1_048_575, 3), (1_048_576, 4)];
        for (length, bytes) in cases {
            assert_eq!(varint(length), bytes, "{length}");
        }
    }
}

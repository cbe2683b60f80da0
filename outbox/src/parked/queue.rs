//! Which queue a parked event stands in: pure, no I/O.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::event::EventId;

/// Set apart from the queues of keys, whose hash begins with a length below 2^56.
const ALONE: [u8; 8] = [0xff; 8];

/// A queue of parked events: of one (topic, key), or of one event that is parked alone.
///
/// The first 16 bytes of SHA-256 over the topic's length (eight bytes, big-endian), the topic and the key; for an event alone, over
/// eight bytes of ones and its id. A key of a megabyte does not fit into an index, and a relay keeps many in memory. Two
/// keys share a queue with a probability of one in 2^64 where there are 2^32 of them; then they block each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Queue([u8; 16]);

impl Queue {
    /// The queue of a key.
    #[must_use]
    pub fn of_key(topic: &str, key: &[u8]) -> Self {
        Self::of([&(topic.len() as u64).to_be_bytes(), topic.as_bytes(), key])
    }

    /// The queue of an event that is parked alone.
    #[must_use]
    pub fn of_event(event: EventId) -> Self {
        Self::of([&ALONE, event.to_string().as_bytes(), &[]])
    }

    /// Reads a queue's name as the tables have it; `None` if it is not 32 hexadecimal digits.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let all_digits = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = all_digits.then(|| u128::from_str_radix(name, 16).ok()).flatten();
        number.map(|number| Self(number.to_be_bytes()))
    }

    fn of(parts: [&[u8]; 3]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        let mut first = [0; 16];
        first.copy_from_slice(&hash.finalize()[..16]);
        Self(first)
    }
}

/// As the tables have it.
impl fmt::Display for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Not to be shown where a key may not be: it tells two keys apart.
impl fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Queue(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_a_topic_and_a_key_or_an_event() {
        assert_eq!(Queue::of_key("a", b"bc"), Queue::of_key("a", b"bc"));
        assert_ne!(Queue::of_key("ab", b"c"), Queue::of_key("a", b"bc"));
        let event = EventId::new();
        assert_eq!(Queue::of_event(event), Queue::of_event(event));
        assert_ne!(Queue::of_event(event), Queue::of_event(EventId::new()));
    }

    #[test]
    fn a_queue_is_read_as_it_is_written() {
        let queue = Queue::of_key("stock-moves", b"85123A");
        assert_eq!(Queue::parse(&queue.to_string()), Some(queue));
        // Fixed for ever: computed once with another implementation of SHA-256.
        assert_eq!(queue.to_string(), "e25968ad41a314400ed8d10ddd635534");
        for wrong in ["", "+0000000000000000000000000000000", "0", "zz000000000000000000000000000000"] {
            assert_eq!(Queue::parse(wrong), None, "{wrong}");
        }
    }
}

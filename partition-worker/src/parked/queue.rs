//! Which queue a parked record stands in: pure, no I/O.

use std::fmt;

use sha2::{Digest, Sha256};

/// Sets the two kinds of queues apart.
const KEY: [u8; 1] = [0];
const ALONE: [u8; 1] = [1];

/// A queue of parked records of a partition: of one key, or of one record that is parked alone.
///
/// The first 16 bytes of SHA-256 over a zero byte and the key; for a record alone, over a byte of one and its offset (eight bytes,
/// big-endian). A key of a megabyte does not fit into an index, and a worker keeps many in memory. Two keys share a queue with a probability
/// of one in 2^64 where there are 2^32 of them; then they are parked and released together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Queue([u8; 16]);

impl Queue {
    /// The queue of a key.
    #[must_use]
    pub fn of_key(key: &[u8]) -> Self {
        Self::of(KEY, key)
    }

    /// The queue of a record that is parked alone.
    #[must_use]
    pub fn of_record(offset: i64) -> Self {
        Self::of(ALONE, &offset.to_be_bytes())
    }

    /// Reads a queue's name as the tables have it; `None` if it is not 32 hexadecimal digits.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let all_digits = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = all_digits.then(|| u128::from_str_radix(name, 16).ok()).flatten();
        number.map(|number| Self(number.to_be_bytes()))
    }

    pub(super) fn read(name: &str) -> Result<Self, sqlx::Error> {
        let wrong = || sqlx::Error::Decode("a queue of parked records is named by 32 hexadecimal digits".into());
        Self::parse(name).ok_or_else(wrong)
    }

    fn of(kind: [u8; 1], what: &[u8]) -> Self {
        let hash = Sha256::new().chain_update(kind).chain_update(what).finalize();
        let mut first = [0; 16];
        first.copy_from_slice(&hash[..16]);
        Self(first)
    }
}

/// As the tables have it.
impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Not to be shown where a key may not be: it tells two keys apart.
impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_a_key_or_a_record() {
        assert_eq!(Queue::of_key(b"85123A"), Queue::of_key(b"85123A"));
        assert_ne!(Queue::of_key(b"85123A"), Queue::of_key(b"85123a"));
        assert_ne!(Queue::of_key(&7_i64.to_be_bytes()), Queue::of_record(7));
    }

    #[test]
    fn a_queue_is_read_as_it_is_written() {
        let queue = Queue::of_key(b"85123A");
        assert_eq!(Queue::parse(&queue.to_string()), Some(queue));
        // Fixed for ever: computed once with another implementation of SHA-256.
        assert_eq!(queue.to_string(), "d0b9bf87b7ff9b9fe8ef7048a799d3e9");
        for wrong in ["", "+0000000000000000000000000000000", "0", "zz000000000000000000000000000000"] {
            assert_eq!(Queue::parse(wrong), None, "{wrong}");
        }
    }
}

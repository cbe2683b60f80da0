//! The name of a partition, the epoch of its ownership, and the id of its topic.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// A partition of a topic. Cheap to clone, to compare and to hash: a record's is looked up many times on its way.
#[derive(Debug, Clone)]
pub struct TopicPartition {
    topic: Arc<str>,
    partition: i32,
    /// Of topic and partition, made once.
    hash: u64,
}

impl TopicPartition {
    /// Partition number `partition` of `topic`.
    #[must_use]
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        let topic = topic.into();
        // Its keys are fixed, so equal names have equal hashes wherever they were made.
        let mut hasher = DefaultHasher::new();
        (&*topic, partition).hash(&mut hasher);
        Self { topic, partition, hash: hasher.finish() }
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The number of the partition, from 0.
    #[must_use]
    pub const fn partition(&self) -> i32 {
        self.partition
    }
}

impl PartialEq for TopicPartition {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.partition == other.partition
            && (Arc::ptr_eq(&self.topic, &other.topic) || self.topic == other.topic)
    }
}

impl Eq for TopicPartition {}

impl Hash for TopicPartition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialOrd for TopicPartition {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By topic, then by number.
impl Ord for TopicPartition {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_topic =
            if Arc::ptr_eq(&self.topic, &other.topic) { Ordering::Equal } else { self.topic.cmp(&other.topic) };
        by_topic.then(self.partition.cmp(&other.partition))
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.topic, self.partition)
    }
}

/// The number of an ownership of a partition. Each seal takes the next one, from 1, so of two owners the later has the
/// higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(i64);

impl Epoch {
    /// The epoch with this number, as a table holds it.
    #[must_use]
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which topic of a name it is: a topic that is deleted and made anew has another id (KIP-516). Shown as Kafka's tools do.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TopicId(u128);

/// The alphabet of "base64url" (RFC 4648, section 5), which Kafka's tools write ids in.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// 128 bits are 21 digits of six bits and a last one with two bits.
const DIGITS: u32 = 22;

impl TopicId {
    /// The id with these bits. `None` for zero, which is how a cluster says that it has no ids.
    #[must_use]
    pub const fn new(bits: u128) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// Its bits.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }

    /// The id that is shown so; `None` if none is.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != DIGITS as usize {
            return None;
        }
        let (mut bits, mut left) = (0_u128, u128::BITS);
        for digit in text.bytes() {
            let value = u128::try_from(ALPHABET.iter().position(|known| *known == digit)?).ok()?;
            let taken = left.min(6);
            left -= taken;
            bits = (bits << taken) | (value >> (6 - taken));
        }
        Self::new(bits).filter(|id| id.to_string() == text)
    }

    /// As a table holds it.
    pub(crate) fn stored(text: &str) -> Result<Self, sqlx::Error> {
        Self::parse(text).ok_or_else(|| sqlx::Error::Decode(format!("{text:?} is no topic id").into()))
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for digit in 0..DIGITS {
            let (shift, bits) = ((u128::BITS - 6).checked_sub(6 * digit), self.0);
            // The last digit has two bits, and four that are zero.
            let value = shift.map_or(bits << 4, |shift| bits >> shift) & 63;
            f.write_char(char::from(ALPHABET[usize::try_from(value).unwrap_or_default()]))?;
        }
        Ok(())
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicId({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Checked against `java.util.Base64.getUrlEncoder().withoutPadding()`, as `org.apache.kafka.common.Uuid` does it.
    #[test]
    fn a_topic_id_is_shown_as_kafka_shows_it() {
        for (bits, text) in [
            (1, "AAAAAAAAAAAAAAAAAAAAAQ"),
            (u128::MAX, "_____________________w"),
            (0x0123_4567_89ab_cdef_fedc_ba98_7654_3210, "ASNFZ4mrze_-3LqYdlQyEA"),
        ] {
            let id = TopicId::new(bits).expect("not zero");
            assert_eq!(id.to_string(), text);
            assert_eq!(TopicId::parse(text), Some(id));
        }
    }

    #[test]
    fn what_is_no_topic_id_is_none() {
        assert_eq!(TopicId::new(0), None);
        for text in [
            "",
            "AAAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAAR",
            "AAAAAAAAAAAAAAAAAAAAA+",
            "AAAAAAAAAAAAAAAAAAAAAQ==",
        ] {
            assert_eq!(TopicId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_is_its_topic_and_number_wherever_it_was_made() {
        let made = || ["b", "a", "ab"].into_iter().flat_map(|topic| [2, 0, 10].map(|n| TopicPartition::new(topic, n)));
        let (mut sorted, names): (Vec<_>, HashSet<_>) = (made().collect(), made().collect());
        assert!(made().all(|name| names.contains(&name)) && names.len() == 9);
        assert!(!names.contains(&TopicPartition::new("a", 1)));
        sorted.sort();
        let shown: Vec<_> = sorted.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["a[0]", "a[2]", "a[10]", "ab[0]", "ab[2]", "ab[10]", "b[0]", "b[2]", "b[10]"]);
    }
}

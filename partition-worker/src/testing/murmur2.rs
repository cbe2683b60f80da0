//! The partition of a key, as Java producers reckon it.

/// The partition of a key: the default of Kafka's Java client.
pub(super) fn partition(key: &[u8], partitions: i32) -> i32 {
    (hash(key) & i32::MAX) % partitions
}

/// `org.apache.kafka.common.utils.Utils.murmur2`.
fn hash(key: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    #[expect(clippy::cast_possible_truncation, reason = "the algorithm takes 32 bits of the length")]
    let mut hash = 0x9747_b28c ^ key.len() as u32;
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        let mut mixed = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        mixed ^= mixed >> 24;
        hash = hash.wrapping_mul(M) ^ mixed.wrapping_mul(M);
    }
    let rest = words.remainder();
    for (index, byte) in rest.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * index);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    (hash ^ (hash >> 15)).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of Kafka's own `UtilsTest`.
    #[test]
    fn a_key_has_the_partition_that_a_java_producer_gives_it() {
        for (key, expected) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("abc", 479_470_107),
        ] {
            assert_eq!(hash(key.as_bytes()), expected, "{key}");
        }
        assert!((0..7).contains(&partition(b"85123A", 7)));
    }
}

//! Which shard an event belongs to.

use leastlock_core::Statement;
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::event::Event;
use crate::sql::OutboxSql;

/// The shards that events are appended to: `count` of them, from the number `first` on. Raising their number makes new ones, and
/// leaves the numbers below to what is appended already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shards {
    first: u16,
    count: u16,
}

impl Shards {
    pub(crate) async fn read<DB: OutboxSql>(connection: &mut DB::Connection) -> Result<Self, Error> {
        let database = Error::database::<DB>;
        let row = Statement::new(DB::SHARDS).fetch_one::<DB>(connection).await.map_err(database)?;
        let figure = |figure: Option<i64>| figure.and_then(|figure| u16::try_from(figure).ok());
        let first = figure(row.optional_int(0).map_err(database)?);
        match (first, figure(row.optional_int(1).map_err(database)?)) {
            (Some(first), Some(count @ 1..)) => Ok(Self { first, count }),
            _ => Err(Error::NoShards),
        }
    }

    /// Both numbers in one, which is never 0.
    pub(crate) fn packed(self) -> u32 {
        u32::from(self.first) << 16 | u32::from(self.count)
    }

    pub(crate) fn unpacked(packed: u32) -> Option<Self> {
        let half = |bits: u32| u16::try_from(bits & 0xffff).unwrap_or_default();
        (packed != 0).then(|| Self { first: half(packed >> 16), count: half(packed) })
    }

    /// The number of the event's shard.
    pub(crate) fn of(self, event: &Event) -> u16 {
        self.first + shard_of(event, self.count)
    }
}

/// The shard of an event among `shards`: the first four bytes, as a big-endian number, of SHA-256 over the topic's length
/// (eight bytes, big-endian), the topic and the key, modulo the number of shards. An event without a key goes by its id.
///
/// Stable for ever: it decides which relay publishes a key, and SQL in other languages must find the same.
pub(crate) fn shard_of(event: &Event, shards: u16) -> u16 {
    let id = event.id.to_string();
    let [a, b, c, d, ..] = digest(&event.topic, event.key.as_deref().unwrap_or(id.as_bytes()));
    let number = u32::from_be_bytes([a, b, c, d]);
    u16::try_from(number % u32::from(shards)).unwrap_or_else(|_| unreachable!("less than a u16"))
}

/// The lock of a (topic, key): the first eight bytes of the same digest, as a big-endian number with a sign. Stable for ever,
/// since services of two versions, and SQL in other languages, must take the same lock.
pub(crate) fn lock_of(topic: &str, key: &[u8]) -> i64 {
    let mut number = [0; 8];
    number.copy_from_slice(&digest(topic, key)[..8]);
    i64::from_be_bytes(number)
}

fn digest(topic: &str, key: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((topic.len() as u64).to_be_bytes());
    hash.update(topic.as_bytes());
    hash.update(key);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_shards_come_behind_the_old_ones() {
        let event = Event::new("stock-moves", "85123A");
        let raised = Shards { first: 16, count: 32 };
        assert_eq!(Shards::unpacked(raised.packed()), Some(raised));
        assert_eq!(raised.of(&event), 16 + shard_of(&event, 32));
        assert_eq!(Shards { first: 0, count: 1 }.of(&event), 0);
        assert_eq!(Shards::unpacked(0), None);
    }

    #[test]
    fn a_key_stays_in_its_shard_and_keys_spread() {
        let shard = |key: &str| shard_of(&Event::new("stock-moves", key), 16);
        assert_eq!(shard("85123A"), shard("85123A"));
        // Fixed for ever: computed once by hand with another implementation of SHA-256.
        assert_eq!(shard("85123A"), 13);
        assert_eq!(lock_of("stock-moves", b"85123A"), -2_136_561_454_870_752_192);
        assert_ne!(lock_of("stock-moves", b"85123A"), lock_of("stock-moves8", b"5123A"));
        let mut used = [0_u32; 16];
        (0..1600).for_each(|number| used[usize::from(shard(&number.to_string()))] += 1);
        assert!(used.iter().all(|&events| events > 50), "{used:?}");
    }

    #[test]
    fn events_without_a_key_spread_too() {
        let shards: std::collections::HashSet<_> = (0..200).map(|_| shard_of(&Event::without_key("t"), 16)).collect();
        assert!(shards.len() > 8);
    }
}

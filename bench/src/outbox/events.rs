//! The events of a turn, which their number alone makes, and what arrived of them.

use std::collections::HashMap;
use std::fmt;

/// Digits at the beginning of a value: the event's number.
const DIGITS: usize = 12;
/// What a value is filled up with.
const FILLING: &[u8] = br#"{"item":"85123A","units":6,"country":"United Kingdom","invoice":536365}"#;

/// So many events of so many bytes, each with its key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Events {
    pub(super) count: u64,
    /// Of each value.
    pub(super) bytes: usize,
    /// How many keys there are.
    pub(super) keys: u64,
    pub(super) seed: u64,
}

impl Events {
    pub(super) fn key(&self, number: u64) -> String {
        let key = fastrand::Rng::with_seed(self.seed ^ number).u64(..self.keys);
        key_name(key)
    }

    pub(super) fn value(&self, number: u64) -> Vec<u8> {
        value(number, self.bytes)
    }
}

pub(super) fn key_name(key: u64) -> String {
    format!("key-{key:06}")
}

/// The value of an event: its number, and as much filling as is asked for.
pub(super) fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = format!("{number:0DIGITS$}").into_bytes();
    value.extend(FILLING.iter().cycle().take(bytes.saturating_sub(DIGITS)));
    value
}

/// The number in a value.
pub(super) fn number_of(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value.get(..DIGITS)?).ok()?.parse().ok()
}

/// What arrived, in the order of each key. The events of a key have rising numbers.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// A bit an event.
    seen: Vec<u64>,
    /// The highest number of each key.
    highest: HashMap<Vec<u8>, u64>,
    /// How many have come at least once.
    pub(super) distinct: u64,
    /// How often one came again.
    pub(super) doubled: u64,
    /// How many came for the first time after a later one of their key.
    pub(super) inverted: u64,
    /// Records that are no event of the turn.
    pub(super) strange: u64,
}

impl Arrivals {
    /// Of events that are numbered from 0.
    pub(super) fn of(events: u64) -> Self {
        let words = usize::try_from(events.div_ceil(64)).unwrap_or(usize::MAX);
        Self { seen: vec![0; words], ..Self::default() }
    }

    /// Counts a record; answers its number if it has come for the first time.
    pub(super) fn count(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) -> Option<u64> {
        let number = value.and_then(number_of);
        let word = number.and_then(|number| self.seen.get_mut(usize::try_from(number / 64).ok()?));
        let (Some(key), Some(number), Some(word)) = (key, number, word) else {
            self.strange += 1;
            return None;
        };
        let bit = 1 << (number % 64);
        if *word & bit != 0 {
            self.doubled += 1;
            return None;
        }
        *word |= bit;
        self.distinct += 1;
        match self.highest.get_mut(key) {
            Some(highest) if *highest > number => self.inverted += 1,
            Some(highest) => *highest = number,
            None => drop(self.highest.insert(key.to_vec(), number)),
        }
        Some(number)
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { distinct, doubled, inverted, strange, .. } = self;
        write!(formatter, "{distinct} events arrived, {doubled} again, {inverted} out of order, {strange} unknown")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(records: &[(&str, u64)]) -> Arrivals {
        let mut arrivals = Arrivals::of(100);
        for (key, number) in records {
            arrivals.count(Some(key.as_bytes()), Some(&value(*number, 40)));
        }
        arrivals
    }

    fn figures(arrivals: &Arrivals) -> [u64; 4] {
        [arrivals.distinct, arrivals.doubled, arrivals.inverted, arrivals.strange]
    }

    #[test]
    fn an_event_is_its_number() {
        let events = Events { count: 10, bytes: 200, keys: 3, seed: 1 };
        assert_eq!(events.value(7).len(), 200);
        assert_eq!(number_of(&events.value(7)), Some(7));
        assert_eq!(events.key(7), events.key(7));
        assert!((0..10).any(|number| events.key(number) != events.key(0)));
        assert_eq!(value(7, 0).len(), DIGITS, "the number is always whole");
        assert_eq!(number_of(b"short"), None);
    }

    #[test]
    fn repeats_are_no_inversions() {
        assert_eq!(figures(&arrivals(&[("a", 1), ("b", 0), ("a", 5), ("a", 1), ("a", 5), ("a", 6)])), [4, 2, 0, 0]);
    }

    #[test]
    fn a_first_occurrence_after_a_later_one_is_an_inversion() {
        assert_eq!(figures(&arrivals(&[("a", 1), ("a", 5), ("a", 3), ("a", 3), ("b", 4)])), [4, 1, 1, 0]);
    }

    #[test]
    fn what_nobody_sent_is_strange() {
        let mut arrivals = arrivals(&[("a", 1), ("a", 128)]);
        arrivals.count(None, Some(&value(2, 0)));
        arrivals.count(Some(b"a"), None);
        arrivals.count(Some(b"a"), Some(b"hello"));
        assert_eq!(figures(&arrivals), [1, 0, 0, 4]);
    }
}

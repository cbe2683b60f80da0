//! Each key's events arrive in order, without a gap, and whole.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Breach;

/// An event as it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// What it is ordered by.
    pub key: String,
    /// Its number among the events of the key, from 1.
    pub sequence: u64,
    /// What tells it from every other event.
    pub event_id: String,
}

impl Delivery {
    /// Event number `sequence` of `key`.
    pub fn new(key: impl Into<String>, sequence: u64, event_id: impl Into<String>) -> Self {
        Self { key: key.into(), sequence, event_id: event_id.into() }
    }
}

/// The first occurrences of each key are 1, 2, 3 …, and a number that comes again is the same event again. How many there
/// should have been at the end is not known here: see [`complete`].
///
/// # Errors
/// The first delivery that is out of order, leaves a gap, or repeats a number with another event.
pub fn in_order(history: &[Delivery]) -> Result<(), Breach> {
    let mut of_key: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut of_event: HashMap<&str, usize> = HashMap::new();
    for (place, delivery) in history.iter().enumerate() {
        let firsts = of_key.entry(&delivery.key).or_default();
        let show = |places: &[usize]| places.iter().chain([&place]).map(|at| (*at, &history[*at])).collect::<Vec<_>>();
        let highest = firsts.len() as u64;
        if delivery.sequence == highest + 1 {
            firsts.push(place);
        } else if delivery.sequence > highest {
            let expected = highest + 1;
            let what = format!("key {:?}: {} came where {expected} was due", delivery.key, delivery.sequence);
            return Err(Breach::new(what, show(firsts.last().map(std::slice::from_ref).unwrap_or_default())));
        } else if delivery.sequence == 0 {
            return Err(Breach::new(format!("key {:?}: numbers begin with 1", delivery.key), show(&[])));
        } else {
            let first = usize::try_from(delivery.sequence - 1).map(|index| firsts[index]).expect("it is below len");
            if history[first].event_id != delivery.event_id {
                let what = format!("key {:?}: {} came again as another event", delivery.key, delivery.sequence);
                return Err(Breach::new(what, show(&[first])));
            }
        }
        let first = *of_event.entry(&delivery.event_id).or_insert(place);
        if (&history[first].key, history[first].sequence) != (&delivery.key, delivery.sequence) {
            return Err(Breach::new(format!("one id for two events: {:?}", delivery.event_id), show(&[first])));
        }
    }
    Ok(())
}

/// [`in_order`], and each key of `expected` has arrived up to the number beside it, with no other keys.
///
/// # Errors
/// As [`in_order`]; or the key of which events are missing, or that nobody sent.
pub fn complete<'a>(history: &[Delivery], expected: impl IntoIterator<Item = (&'a str, u64)>) -> Result<(), Breach> {
    in_order(history)?;
    let mut last: HashMap<&str, (usize, &Delivery)> = HashMap::new();
    for (place, delivery) in history.iter().enumerate() {
        let kept = last.entry(&delivery.key).or_insert((place, delivery));
        if kept.1.sequence < delivery.sequence {
            *kept = (place, delivery);
        }
    }
    for (key, count) in expected {
        let found = last.remove(key);
        let arrived = found.map_or(0, |(_, delivery)| delivery.sequence);
        if arrived != count {
            return Err(Breach::new(format!("key {key:?}: {arrived} events arrived of {count}; the last was"), found));
        }
    }
    match last.into_values().min_by_key(|(place, _)| *place) {
        Some(stray) => Err(Breach::new(format!("key {:?}: nobody sent it", stray.1.key), [stray])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(deliveries: &[(&str, u64, &str)]) -> Vec<Delivery> {
        deliveries.iter().map(|(key, sequence, id)| Delivery::new(*key, *sequence, *id)).collect()
    }

    #[track_caller]
    fn rejected(deliveries: &[(&str, u64, &str)], because: &str) {
        let breach = in_order(&history(deliveries)).expect_err("it breaks the order");
        assert!(breach.to_string().contains(because), "{breach}");
    }

    #[test]
    fn interleaved_keys_and_true_duplicates_are_in_order() {
        let good =
            history(&[("a", 1, "a1"), ("b", 1, "b1"), ("a", 2, "a2"), ("a", 1, "a1"), ("a", 2, "a2"), ("a", 3, "a3")]);
        assert_eq!(in_order(&good), Ok(()));
        assert_eq!(complete(&good, [("a", 3), ("b", 1)]), Ok(()));
        assert_eq!(in_order(&[]), Ok(()));
    }

    #[test]
    fn inversion_is_rejected() {
        rejected(&[("a", 1, "a1"), ("a", 3, "a3"), ("a", 2, "a2")], "3 came where 2 was due");
    }

    #[test]
    fn gap_is_rejected() {
        rejected(&[("a", 2, "a2")], "2 came where 1 was due");
    }

    #[test]
    fn repeated_number_with_another_id_is_rejected() {
        rejected(&[("a", 1, "a1"), ("a", 2, "a2"), ("a", 1, "other")], "1 came again as another event\n  #0:");
    }

    #[test]
    fn one_id_for_two_events_is_rejected() {
        rejected(&[("a", 1, "x"), ("b", 1, "x")], "one id for two events");
        rejected(&[("a", 1, "x"), ("a", 2, "x")], "one id for two events");
    }

    #[test]
    fn zero_is_rejected() {
        rejected(&[("a", 0, "a0")], "begin with 1");
    }

    #[test]
    fn lost_tail_and_lost_key_and_stray_key_are_rejected() {
        let arrived = history(&[("a", 1, "a1"), ("a", 2, "a2"), ("a", 1, "a1")]);
        let lost = complete(&arrived, [("a", 3)]).expect_err("the third is missing");
        assert!(lost.to_string().contains("2 events arrived of 3"), "{lost}");
        assert!(lost.to_string().contains("#1:"), "{lost}");
        let lost = complete(&arrived, [("a", 2), ("b", 1)]).expect_err("b is missing");
        assert!(lost.to_string().contains("key \"b\": 0 events arrived of 1"), "{lost}");
        complete(&arrived, []).expect_err("a was never sent");
    }
}

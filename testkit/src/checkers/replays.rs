//! Whoever asks under one idempotency key is told one and the same, byte for byte, and every key comes to an end.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::Breach;

/// What a client was told under a key. What is no outcome (in flight, unknown, overloaded) is not one of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Under this key.
    pub key: String,
    /// The answer as it came: status, headers that count, body.
    pub answer: Vec<u8>,
    /// Whether it said of itself that it is a replay.
    pub is_replay: bool,
    /// When it was asked for, in milliseconds of one monotonic clock.
    pub called_ms: i64,
    /// When it came.
    pub answered_ms: i64,
}

/// All answers of a key are the same bytes; one of them at the most is no replay, and none is that was asked for when another had come.
///
/// # Errors
/// The first key (in the order of keys) that was told two things, or that began twice.
pub fn byte_identical(history: &[Told]) -> Result<(), Breach> {
    let mut of_key: BTreeMap<&str, Vec<(usize, &Told)>> = BTreeMap::new();
    for (place, told) in history.iter().enumerate() {
        of_key.entry(&told.key).or_default().push((place, told));
    }
    for (key, told) in of_key {
        let first = told[0];
        if let Some(other) = told.iter().find(|(_, other)| other.answer != first.1.answer) {
            return Err(Breach::new(format!("key {key:?} was told two things"), [first, *other]));
        }
        let mut firsts = told.iter().copied().filter(|(_, told)| !told.is_replay);
        let (one, another) = (firsts.next(), firsts.next());
        if let (Some(one), Some(another)) = (one, another) {
            return Err(Breach::new(format!("key {key:?} began twice"), [one, another]));
        }
        let Some(begun) = one else { continue };
        if let Some(before) = told.iter().find(|(_, told)| told.answered_ms < begun.1.called_ms) {
            return Err(Breach::new(format!("key {key:?} began when it had been answered"), [*before, begun]));
        }
    }
    Ok(())
}

/// Every key that was asked for stands at an end in the store. Those that it has no record of may never have reached it; the others are
/// `(key, is_terminal)`.
///
/// # Errors
/// The keys that did not come to an end, or that were answered and are not there.
pub fn all_terminal<'a>(history: &[Told], store: impl IntoIterator<Item = (&'a str, bool)>) -> Result<(), Breach> {
    let store: HashMap<&str, bool> = store.into_iter().collect();
    let open: Vec<_> = store.iter().filter(|(_, is_terminal)| !**is_terminal).map(|(key, _)| *key).collect();
    if !open.is_empty() {
        return Err(Breach::new(format!("{} keys did not come to an end", open.len()), open.into_iter().enumerate()));
    }
    let missing = history.iter().enumerate().find(|(_, told)| !store.contains_key(&*told.key));
    match missing {
        Some(told) => Err(Breach::new(format!("key {:?} was answered and is not there", told.1.key), [told])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(key: &str, answer: &str, is_replay: bool, (called_ms, answered_ms): (i64, i64)) -> Told {
        Told { key: key.to_owned(), answer: answer.into(), is_replay, called_ms, answered_ms }
    }

    #[track_caller]
    fn rejected(outcome: Result<(), Breach>, because: &str) {
        let breach = outcome.expect_err("it is a breach");
        assert!(breach.to_string().contains(because), "{breach}");
    }

    #[test]
    fn one_first_and_its_replays_pass_also_when_the_first_answer_was_lost() {
        let history = [
            told("a", "201", true, (1, 9)),
            told("a", "201", false, (0, 8)),
            told("a", "201", true, (20, 21)),
            told("b", "409", true, (0, 1)),
        ];
        assert_eq!(byte_identical(&history), Ok(()));
        assert_eq!(all_terminal(&history, [("a", true), ("b", true), ("nobody was told", true)]), Ok(()));
    }

    #[test]
    fn answer_that_differs_in_a_byte_is_rejected() {
        let history = [told("a", "{\"id\":1}", false, (0, 1)), told("a", "{\"id\": 1}", true, (2, 3))];
        rejected(byte_identical(&history), "key \"a\" was told two things");
    }

    #[test]
    fn second_beginning_is_rejected() {
        let twice = [told("a", "201", false, (0, 1)), told("a", "201", false, (0, 2))];
        rejected(byte_identical(&twice), "key \"a\" began twice");
        let late = [told("a", "201", true, (0, 1)), told("a", "201", false, (2, 3))];
        rejected(byte_identical(&late), "began when it had been answered");
    }

    #[test]
    fn key_without_an_end_or_without_a_record_is_rejected() {
        let history = [told("a", "201", false, (0, 1))];
        rejected(all_terminal(&history, [("a", true), ("b", false)]), "1 keys did not come to an end\n  #0: \"b\"");
        rejected(all_terminal(&history, []), "was answered and is not there");
    }
}

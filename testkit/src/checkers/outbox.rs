//! What was committed is published, and nothing else.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::Breach;

/// A commit with an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// What tells the event from every other, as its writer chose it.
    pub event: String,
    /// What became of the commit.
    pub fate: Fate,
}

/// What the writer of a [`Commit`] was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// It is committed.
    Acknowledged,
    /// Nothing came back.
    Unknown,
    /// It was rolled back.
    Refused,
}

/// Acknowledged ⊆ consumed ⊆ acknowledged ∪ unknown. An event may be consumed more than once; the order is
/// [`order::in_order`](super::order::in_order)'s to judge.
///
/// # Errors
/// The acknowledged events that were not consumed, or the consumed ones that nobody can have committed.
pub fn accounted(commits: &[Commit], consumed: &[String]) -> Result<(), Breach> {
    let arrived: HashSet<&str> = consumed.iter().map(String::as_str).collect();
    let lost: Vec<_> = commits
        .iter()
        .enumerate()
        .filter(|(_, commit)| commit.fate == Fate::Acknowledged && !arrived.contains(&*commit.event))
        .collect();
    if !lost.is_empty() {
        return Err(Breach::new(format!("{} acknowledged events were not consumed", lost.len()), lost));
    }
    // Of several tries under one name one that may be committed is enough.
    let mut may_be: HashMap<&str, bool> = HashMap::new();
    for commit in commits {
        *may_be.entry(&commit.event).or_default() |= commit.fate != Fate::Refused;
    }
    let strange: Vec<_> =
        consumed.iter().enumerate().filter(|(_, event)| !may_be.get(&***event).copied().unwrap_or(false)).collect();
    if !strange.is_empty() {
        return Err(Breach::new(format!("{} consumed events were not committed", strange.len()), strange));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Fate::{Acknowledged, Refused, Unknown};
    use super::*;

    fn commits(fates: &[(&str, Fate)]) -> Vec<Commit> {
        fates.iter().map(|(event, fate)| Commit { event: (*event).to_owned(), fate: *fate }).collect()
    }

    fn judge(fates: &[(&str, Fate)], consumed: &[&str]) -> Result<(), Breach> {
        accounted(&commits(fates), &consumed.iter().map(|&event| event.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn acknowledged_ones_with_repeats_and_some_unknown_ones_pass() {
        let fates = [("a", Acknowledged), ("b", Unknown), ("c", Unknown), ("d", Refused), ("d", Unknown)];
        assert_eq!(judge(&fates, &["a", "b", "a"]), Ok(()));
        assert_eq!(judge(&fates, &["a", "d"]), Ok(()));
        assert_eq!(judge(&[], &[]), Ok(()));
    }

    #[test]
    fn lost_event_is_rejected() {
        let breach = judge(&[("a", Acknowledged), ("b", Acknowledged)], &["b"]).expect_err("a is lost");
        assert!(breach.to_string().starts_with("1 acknowledged events were not consumed\n  #0:"), "{breach}");
    }

    #[test]
    fn event_of_a_transaction_that_was_rolled_back_or_never_was_is_rejected() {
        for strange in ["a", "x"] {
            let breach = judge(&[("a", Refused)], &[strange]).expect_err("it is made up");
            assert!(breach.to_string().starts_with("1 consumed events were not committed"), "{breach}");
        }
    }
}

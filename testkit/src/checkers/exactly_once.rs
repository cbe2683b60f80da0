//! A key has at most one effect, and exactly one once a client saw success.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Breach;

/// Something that happened under an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The effect, as it is found where it took place (a row, a charge at the provider).
    Effect {
        /// Under this key.
        key: String,
        /// What tells one effect from another.
        detail: String,
    },
    /// A client was told that its request succeeded, at first hand or by a replay.
    Success {
        /// Under this key.
        key: String,
        /// Who was told what.
        detail: String,
    },
}

impl Event {
    /// An effect under `key`.
    pub fn effect(key: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Effect { key: key.into(), detail: detail.into() }
    }

    /// A success under `key`.
    pub fn success(key: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Success { key: key.into(), detail: detail.into() }
    }

    fn key(&self) -> &str {
        match self {
            Self::Effect { key, .. } | Self::Success { key, .. } => key,
        }
    }
}

/// Each key has at most one effect, and one if any client saw success. The order does not matter: effects are often
/// read at the end.
///
/// # Errors
/// The first key (in the order of keys) with two effects, or with a success and no effect.
pub fn at_most_once_and_once_after_success(history: &[Event]) -> Result<(), Breach> {
    let mut of_key: BTreeMap<&str, Vec<(usize, &Event)>> = BTreeMap::new();
    for (place, event) in history.iter().enumerate() {
        of_key.entry(event.key()).or_default().push((place, event));
    }
    for (key, events) in of_key {
        let effects = events.iter().filter(|(_, event)| matches!(event, Event::Effect { .. })).count();
        if effects > 1 {
            return Err(Breach::new(format!("key {key:?}: {effects} effects"), events));
        }
        if effects == 0 {
            return Err(Breach::new(format!("key {key:?}: a client saw success, and there is no effect"), events));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_effect_with_any_number_of_successes_passes() {
        let history = [
            Event::effect("a", "row 1"),
            Event::success("a", "first"),
            Event::success("a", "replay"),
            Event::success("b", "first"),
            Event::effect("b", "row 2"),
            Event::effect("nobody was told", "row 3"),
        ];
        assert_eq!(at_most_once_and_once_after_success(&history), Ok(()));
        assert_eq!(at_most_once_and_once_after_success(&[]), Ok(()));
    }

    #[test]
    fn second_effect_is_rejected_even_if_it_looks_the_same() {
        let history = [Event::effect("a", "row 1"), Event::success("a", "first"), Event::effect("a", "row 1")];
        let breach = at_most_once_and_once_after_success(&history).expect_err("two effects");
        assert!(breach.to_string().starts_with("key \"a\": 2 effects\n  #0: Effect"), "{breach}");
        assert!(breach.to_string().contains("#2: Effect"), "{breach}");
    }

    #[test]
    fn success_without_an_effect_is_rejected() {
        let history = [Event::effect("b", "row 1"), Event::success("a", "client 7")];
        let breach = at_most_once_and_once_after_success(&history).expect_err("no effect");
        assert!(breach.to_string().contains("no effect") && breach.to_string().contains("client 7"), "{breach}");
    }
}

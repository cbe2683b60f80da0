//! Nothing of an earlier holder is applied after a later one's.
//!
//! The rule is Martin Kleppmann's ("How to do distributed locking", 2016): a resource that has seen a token refuses every
//! lower one. Two holders with one number, as a restored lock store makes them, must not both be let in either.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Breach;

/// What a holder tried at a protected resource, in the order in which the resource decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// What is protected.
    pub resource: String,
    /// The holder's fencing token.
    pub token: i64,
    /// The holder's nonce.
    pub owner: String,
    /// What the resource did.
    pub outcome: Outcome,
}

/// What a resource did with an [`Attempt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It registered the token as its generation.
    Sealed,
    /// It applied a write.
    Applied,
    /// It refused.
    Refused,
}

impl Attempt {
    /// An attempt of `owner` with `token` at `resource`.
    pub fn new(resource: impl Into<String>, token: i64, owner: impl Into<String>, outcome: Outcome) -> Self {
        Self { resource: resource.into(), token, owner: owner.into(), outcome }
    }
}

/// At each resource, no token is sealed or applied after a higher one, and no equal one of another owner.
///
/// # Errors
/// The first attempt that was let in, with the one before it that forbade that.
pub fn fenced(history: &[Attempt]) -> Result<(), Breach> {
    let mut highest: HashMap<&str, usize> = HashMap::new();
    for (place, attempt) in history.iter().enumerate().filter(|(_, attempt)| attempt.outcome != Outcome::Refused) {
        let before = *highest.entry(&attempt.resource).or_insert(place);
        let stands = &history[before];
        let what = if attempt.token < stands.token {
            format!("resource {:?}: token {} was let in after {}", attempt.resource, attempt.token, stands.token)
        } else if attempt.token == stands.token && attempt.owner != stands.owner {
            format!("resource {:?}: token {} was let in for two owners", attempt.resource, attempt.token)
        } else {
            highest.insert(&attempt.resource, place);
            continue;
        };
        return Err(Breach::new(what, [(before, stands), (place, attempt)]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Applied, Refused, Sealed};

    fn history(attempts: &[(&str, i64, &str, Outcome)]) -> Vec<Attempt> {
        attempts
            .iter()
            .map(|(resource, token, owner, outcome)| Attempt::new(*resource, *token, *owner, *outcome))
            .collect()
    }

    #[track_caller]
    fn rejected(attempts: &[(&str, i64, &str, Outcome)], because: &str) {
        let breach = fenced(&history(attempts)).expect_err("it is not fenced");
        assert!(breach.to_string().contains(because), "{breach}");
    }

    #[test]
    fn rising_tokens_repeated_writes_and_refused_late_ones_pass() {
        let good = history(&[
            ("r", 1, "a", Sealed),
            ("r", 1, "a", Applied),
            ("r", 1, "a", Applied),
            ("r", 3, "b", Sealed),
            ("r", 1, "a", Refused),
            ("other", 1, "a", Applied),
            ("r", 3, "a", Refused),
            ("r", 3, "b", Applied),
        ]);
        assert_eq!(fenced(&good), Ok(()));
        assert_eq!(fenced(&[]), Ok(()));
    }

    #[test]
    fn late_write_is_rejected() {
        let late = [("r", 1, "a", Applied), ("r", 2, "b", Applied), ("r", 1, "a", Applied)];
        rejected(&late, "token 1 was let in after 2\n  #1:");
        rejected(&late, "#2:");
    }

    #[test]
    fn late_write_after_a_mere_seal_is_rejected() {
        rejected(&[("r", 2, "b", Sealed), ("r", 1, "a", Applied)], "token 1 was let in after 2");
        rejected(&[("r", 2, "b", Applied), ("r", 1, "a", Sealed)], "token 1 was let in after 2");
    }

    #[test]
    fn equal_token_of_another_owner_is_rejected() {
        rejected(&[("r", 2, "a", Applied), ("r", 2, "b", Applied)], "token 2 was let in for two owners");
    }
}

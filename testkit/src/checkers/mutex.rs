//! A lease history that a fenced mutex could have produced.
//!
//! The model: a lock is free, or held by one owner under one token until it expires or is given back. It is granted only when free,
//! under a larger token than any before; it is extended only for its holder. Clients see calls and answers, not the lock, so
//! what is checked is that *some* moment between each call and its answer fits. What had no answer may have happened: it is not in the
//! history as an extension, and it frees the lock if it was to give it back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Breach;

/// Something that the lock store said yes to, or that it may have. Times are of one monotonic clock, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Which lock.
    pub lock: String,
    /// Whose.
    pub owner: String,
    /// Under this token.
    pub token: i64,
    /// What.
    pub what: What,
    /// When it was asked for.
    pub called_ms: i64,
    /// When the answer came; none came to what is unknown.
    pub answered_ms: Option<i64>,
}

/// What a [`Said`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// The lock was granted for so many milliseconds.
    Granted(i64),
    /// The hold was extended to so many milliseconds.
    Extended(i64),
    /// The lock was given back, by its owner or by an operator.
    Freed,
}

/// What a hold of one token came to.
struct Hold<'a> {
    token: i64,
    owner: &'a str,
    /// The grant of it.
    granted: (usize, &'a Said),
    /// The extension, or the grant, that lasts longest, and when it ends at the earliest.
    longest: (i64, (usize, &'a Said)),
    /// The one that was asked for last.
    last: (usize, &'a Said),
    freed_ms: Option<i64>,
}

/// At each lock, tokens rise in the order of time, each is one owner's, and no hold begins before the one before it has been given back
/// or is over. `slack_ms` is how far the store's clock may run ahead of the history's in the course of a hold.
///
/// # Errors
/// The first lock (in the order of names) with two holds that no fenced mutex would have granted.
pub fn fenced_mutex(history: &[Said], slack_ms: i64) -> Result<(), Breach> {
    let mut of_lock: BTreeMap<&str, Vec<(usize, &Said)>> = BTreeMap::new();
    for (place, said) in history.iter().enumerate() {
        of_lock.entry(&said.lock).or_default().push((place, said));
    }
    for (lock, said) in of_lock {
        tokens_rise(lock, &said)?;
        let holds = holds(lock, &said)?;
        for pair in holds.windows(2) {
            one_after_the_other(lock, &pair[0], &pair[1], slack_ms)?;
        }
    }
    Ok(())
}

/// A grant that was asked for after another one's answer has the larger token.
fn tokens_rise(lock: &str, said: &[(usize, &Said)]) -> Result<(), Breach> {
    let grants = said.iter().filter(|(_, said)| matches!(said.what, What::Granted(_)));
    let mut answered: Vec<(i64, (usize, &Said))> =
        grants.clone().filter_map(|&(place, said)| Some((said.answered_ms?, (place, said)))).collect();
    answered.sort_by_key(|(at, _)| *at);
    let mut called: Vec<(usize, &Said)> = grants.copied().collect();
    called.sort_by_key(|(_, said)| said.called_ms);
    let (mut earlier, mut highest) = (answered.into_iter().peekable(), None::<(usize, &Said)>);
    for grant in called {
        while let Some((_, before)) = earlier.next_if(|(at, _)| *at < grant.1.called_ms) {
            highest = highest.filter(|highest| highest.1.token >= before.1.token).or(Some(before));
        }
        let Some(highest) = highest else { continue };
        // The same owner may ask again, and is told what it was told before.
        if grant.1.token < highest.1.token {
            let what = format!("lock {lock:?}: token {} was granted after {}", grant.1.token, highest.1.token);
            return Err(Breach::new(what, [highest, grant]));
        }
    }
    Ok(())
}

/// The holds in the order of their tokens.
fn holds<'a>(lock: &str, said: &[(usize, &'a Said)]) -> Result<Vec<Hold<'a>>, Breach> {
    let mut of_token: BTreeMap<i64, Hold<'a>> = BTreeMap::new();
    for &(place, said) in said {
        let (What::Granted(ttl_ms), Some(_)) = (said.what, said.answered_ms) else { continue };
        let begins = |owner| Hold {
            token: said.token,
            owner,
            granted: (place, said),
            longest: (said.called_ms + ttl_ms, (place, said)),
            last: (place, said),
            freed_ms: None,
        };
        let hold = of_token.entry(said.token).or_insert_with(|| begins(&said.owner));
        if hold.owner != said.owner {
            let what = format!("lock {lock:?}: token {} was granted to two owners", said.token);
            return Err(Breach::new(what, [hold.granted, (place, said)]));
        }
    }
    for &(place, said) in said {
        // Of a hold whose grant nobody saw there is nothing to compare with.
        let Some(hold) = of_token.get_mut(&said.token).filter(|hold| hold.owner == said.owner) else { continue };
        match said.what {
            What::Freed => hold.freed_ms = Some(hold.freed_ms.map_or(said.called_ms, |at| at.min(said.called_ms))),
            What::Granted(ttl_ms) | What::Extended(ttl_ms) if said.answered_ms.is_some() => {
                if said.called_ms + ttl_ms > hold.longest.0 {
                    hold.longest = (said.called_ms + ttl_ms, (place, said));
                }
                if said.called_ms > hold.last.1.called_ms {
                    hold.last = (place, said);
                }
            }
            What::Granted(_) | What::Extended(_) => {}
        }
    }
    Ok(of_token.into_values().collect())
}

/// Everything that the earlier holder was told yes to came before the later grant.
fn one_after_the_other(lock: &str, earlier: &Hold, later: &Hold, slack_ms: i64) -> Result<(), Breach> {
    let Some(granted_ms) = later.granted.1.answered_ms else { return Ok(()) };
    if earlier.last.1.called_ms > granted_ms {
        let what = format!(
            "lock {lock:?}: the hold of token {} was extended when {} had been granted",
            earlier.token, later.token
        );
        return Err(Breach::new(what, [later.granted, earlier.last]));
    }
    let given_back = earlier.freed_ms.is_some_and(|freed_ms| freed_ms <= granted_ms);
    if !given_back && granted_ms + slack_ms < earlier.longest.0 {
        let what = format!(
            "lock {lock:?}: token {} was granted {} ms before the hold of {} was over",
            later.token,
            earlier.longest.0 - granted_ms,
            earlier.token
        );
        return Err(Breach::new(what, [earlier.longest.1, later.granted]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::What::{Extended, Freed, Granted};
    use super::*;

    fn said(owner: &str, token: i64, what: What, (called_ms, answered_ms): (i64, Option<i64>)) -> Said {
        Said { lock: "l".to_owned(), owner: owner.to_owned(), token, what, called_ms, answered_ms }
    }

    fn at(called_ms: i64) -> (i64, Option<i64>) {
        (called_ms, Some(called_ms + 5))
    }

    #[track_caller]
    fn rejected(history: &[Said], because: &str) {
        let breach = fenced_mutex(history, 10).expect_err("no fenced mutex does that");
        assert!(breach.to_string().contains(because), "{breach}");
    }

    #[test]
    fn hold_after_hold_passes_by_expiry_and_by_release() {
        let history = [
            said("a", 1, Granted(1_000), at(0)),
            said("a", 1, Extended(1_000), at(500)),
            said("b", 2, Granted(1_000), at(1_490)),
            said("b", 2, Freed, at(1_600)),
            said("c", 5, Granted(1_000), at(1_601)),
        ];
        assert_eq!(fenced_mutex(&history, 10), Ok(()));
        assert_eq!(fenced_mutex(&[], 0), Ok(()));
    }

    #[test]
    fn grant_that_waited_passes_whenever_it_was_asked_for() {
        let history = [said("a", 1, Granted(1_000), at(0)), said("b", 2, Granted(1_000), (3, Some(1_000)))];
        assert_eq!(fenced_mutex(&history, 0), Ok(()));
    }

    #[test]
    fn unknown_release_may_have_freed_the_lock_and_an_unknown_extension_proves_nothing() {
        let history = [
            said("a", 1, Granted(1_000), at(0)),
            said("a", 1, Extended(1_000), (900, None)),
            said("a", 1, Freed, (20, None)),
            said("b", 2, Granted(1_000), at(30)),
        ];
        assert_eq!(fenced_mutex(&history, 10), Ok(()));
        assert_eq!(
            fenced_mutex(&[history[0].clone(), history[1].clone(), said("b", 2, Granted(9), at(1_000))], 0),
            Ok(())
        );
    }

    #[test]
    fn second_holder_before_the_first_is_over_is_rejected() {
        rejected(
            &[said("a", 1, Granted(1_000), at(0)), said("b", 2, Granted(1_000), at(800))],
            "token 2 was granted 195 ms before the hold of 1 was over",
        );
    }

    #[test]
    fn extension_counts_from_when_it_was_asked_for() {
        let history = |called| {
            [
                said("a", 1, Granted(1_000), at(0)),
                said("a", 1, Extended(1_000), (called, Some(900))),
                said("b", 2, Granted(1_000), at(1_200)),
            ]
        };
        assert_eq!(fenced_mutex(&history(100), 10), Ok(()));
        rejected(&history(800), "before the hold of 1 was over");
    }

    #[test]
    fn extension_of_a_hold_that_is_lost_is_rejected() {
        let history = [
            said("a", 1, Granted(1_000), at(0)),
            said("b", 2, Granted(1_000), at(1_100)),
            said("a", 1, Extended(1_000), at(1_200)),
        ];
        rejected(&history, "the hold of token 1 was extended when 2 had been granted");
    }

    #[test]
    fn token_that_falls_or_is_two_owners_is_rejected() {
        let falls = [said("a", 3, Granted(10), at(0)), said("b", 2, Granted(10), at(100))];
        rejected(&falls, "token 2 was granted after 3");
        let shared = [said("a", 3, Granted(10), at(0)), said("b", 3, Granted(10), at(100))];
        rejected(&shared, "token 3 was granted to two owners");
    }

    #[test]
    fn locks_do_not_look_at_each_other() {
        let mut other = said("b", 1, Granted(1_000), at(1));
        other.lock = "m".to_owned();
        assert_eq!(fenced_mutex(&[said("a", 1, Granted(1_000), at(0)), other], 0), Ok(()));
    }
}

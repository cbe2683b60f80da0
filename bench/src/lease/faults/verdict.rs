//! Whether a lower token was applied after a higher one.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::door::Written;

/// What was applied that should not have been.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) applied: u64,
    /// Writes with a token below one that was applied at the door before, or with the same one of another holder.
    pub(super) late: u64,
    /// How many leases they were of.
    pub(super) leases: u64,
}

impl Verdict {
    /// Judges what was applied, at each door in its order.
    pub(super) fn of(history: &[Written]) -> Self {
        let mut verdict = Self::default();
        let mut newest: HashMap<i64, Written> = HashMap::new();
        let mut leases = HashSet::new();
        for write in history {
            verdict.applied += 1;
            let newest = newest.entry(write.door).or_insert(*write);
            if write.token > newest.token {
                *newest = *write;
            } else if write.token < newest.token || write.holder != newest.holder {
                verdict.late += 1;
                leases.insert((write.door, write.token, write.holder));
            }
        }
        verdict.leases = leases.len() as u64;
        verdict
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { applied, late, leases } = self;
        write!(formatter, "{applied} writes applied, {late} of them ({leases} leases) below a higher token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(history: &[(i64, i64, i64)]) -> (u64, u64, u64) {
        let history: Vec<_> = history
            .iter()
            .map(|(door, token, holder)| Written { door: *door, token: *token, holder: *holder })
            .collect();
        let Verdict { applied, late, leases } = Verdict::of(&history);
        (applied, late, leases)
    }

    #[test]
    fn tokens_that_rise_at_each_door_are_clean() {
        assert_eq!(judged(&[(1, 1, 7), (1, 1, 7), (1, 4, 8), (2, 2, 7), (2, 3, 8)]), (5, 0, 0));
        assert_eq!(judged(&[]), (0, 0, 0));
    }

    #[test]
    fn a_lower_token_after_a_higher_one_is_late_however_often() {
        assert_eq!(judged(&[(1, 1, 7), (1, 2, 8), (1, 1, 7), (1, 1, 7), (1, 2, 8)]), (5, 2, 1));
        assert_eq!(judged(&[(1, 1, 7), (1, 3, 8), (1, 1, 7), (1, 2, 7)]), (4, 2, 2));
    }

    #[test]
    fn one_token_of_two_holders_is_late() {
        assert_eq!(judged(&[(1, 2, 7), (1, 2, 8)]), (2, 1, 1));
    }
}

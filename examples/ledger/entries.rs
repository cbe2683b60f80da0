//! The entries of all accounts: what is produced, and what the ledger has to come to.

use std::collections::BTreeMap;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// A deposit or a withdrawal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) account: String,
    pub(crate) moved: Moved,
}

/// What a record says; its key is the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moved {
    /// The number of the entry among its account's, from 1.
    pub(crate) sequence: i64,
    /// Below zero for a withdrawal.
    pub(crate) cents: i64,
}

/// An account as it has to stand in the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) balance: i64,
    /// For each entry in its order, whether it is covered.
    pub(crate) applied: Vec<bool>,
}

/// The names of the accounts.
pub(crate) fn accounts(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("account-{number:04}")).collect()
}

/// Entries in the order in which they are produced.
pub(crate) fn entries(seed: u64, accounts: &[String], count: u32) -> Vec<Entry> {
    let mut rng = Rng::with_seed(seed);
    let mut sequences = BTreeMap::<&str, i64>::new();
    let entry = |_| {
        let account = &accounts[rng.usize(..accounts.len())];
        let sequence = sequences.entry(account).and_modify(|last| *last += 1).or_insert(1);
        // About as much goes out as comes in, so that many a withdrawal is refused.
        let cents = if rng.bool() { rng.i64(1..=50_000) } else { -rng.i64(1..=60_000) };
        Entry { account: account.clone(), moved: Moved { sequence: *sequence, cents } }
    };
    (0..count).map(entry).collect()
}

/// What the entries come to, one after the other.
pub(crate) fn expected(entries: &[Entry]) -> BTreeMap<&str, Expected> {
    let mut accounts = BTreeMap::<&str, Expected>::new();
    for Entry { account, moved } in entries {
        let account = accounts.entry(account).or_default();
        let covered = account.balance + moved.cents >= 0;
        if covered {
            account.balance += moved.cents;
        }
        account.applied.push(covered);
    }
    accounts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_and_each_account_counts_from_one() {
        let accounts = accounts(3);
        let entries = entries(7, &accounts, 100);
        assert_eq!(entries, super::entries(7, &accounts, 100));
        assert_ne!(entries, super::entries(8, &accounts, 100));
        for account in &accounts {
            let own = entries.iter().filter(|entry| entry.account == *account);
            let sequences: Vec<_> = own.map(|entry| entry.moved.sequence).collect();
            assert_eq!(sequences, (1..).take(sequences.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_not_covered_is_refused_and_the_order_decides() {
        let of = |cents: &[i64]| {
            let entry = |(sequence, cents): (i64, &i64)| Entry {
                account: "a".to_owned(),
                moved: Moved { sequence, cents: *cents },
            };
            let entries: Vec<_> = (1..).zip(cents).map(entry).collect();
            let account = expected(&entries).remove("a").unwrap();
            (account.balance, account.applied)
        };
        assert_eq!(of(&[10, -4, -7, 2]), (8, vec![true, true, false, true]));
        assert_eq!(of(&[-7, 10, -4, 2]), (8, vec![false, true, true, true]));
        assert_eq!(of(&[10, -7, -4, 2]), (5, vec![true, true, false, true]));
    }
}

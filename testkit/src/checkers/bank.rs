//! Money is only moved: no transfer is lost, doubled or made of a version that somebody else has replaced.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::Breach;

/// A write of an account that a client was told is committed, or may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// Which account.
    pub account: String,
    /// Which transfer it is part of.
    pub transfer: String,
    /// The version that was loaded.
    pub from: i64,
    /// What it changed the balance by.
    pub by: i64,
    /// Whether the client was told that it is committed; if not, it may be.
    pub is_acknowledged: bool,
}

/// An account as it stands before or after everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Which account.
    pub account: String,
    /// Its version.
    pub version: i64,
    /// Its balance.
    pub balance: i64,
}

/// The sum of all balances is what it was.
///
/// # Errors
/// The two sums, with the accounts as they stand.
pub fn total_is_constant(before: &[Account], after: &[Account]) -> Result<(), Breach> {
    let total = |accounts: &[Account]| accounts.iter().map(|account| i128::from(account.balance)).sum::<i128>();
    let (was, is) = (total(before), total(after));
    if was == is {
        return Ok(());
    }
    Err(Breach::new(format!("the accounts held {was} in all, and hold {is}"), after.iter().enumerate()))
}

/// Each version of an account was replaced once at the most, by the next one: of two acknowledged writes from one version the later
/// was made of what the earlier had replaced already. The version at the end counts every acknowledged write, and no more
/// than those that may be committed; the balance is the opening's with exactly so many of them.
///
/// # Errors
/// The first account (in the order of names) with a lost update, a version that does not count its writes, or a balance
/// that they do not come to.
pub fn no_update_is_lost(before: &[Account], writes: &[Write], after: &[Account]) -> Result<(), Breach> {
    let mut of_account: BTreeMap<&str, Vec<(usize, &Write)>> = BTreeMap::new();
    for (place, write) in writes.iter().enumerate() {
        of_account.entry(&write.account).or_default().push((place, write));
    }
    let opening: HashMap<&str, &Account> = before.iter().map(|account| (&*account.account, account)).collect();
    for end in after {
        let writes = of_account.remove(&*end.account).unwrap_or_default();
        let Some(opening) = opening.get(&*end.account) else {
            return Err(Breach::new(format!("account {:?} was not there before", end.account), writes));
        };
        one_account(opening, &writes, end)?;
    }
    match of_account.into_iter().next() {
        Some((account, writes)) => Err(Breach::new(format!("account {account:?} is not there any more"), writes)),
        None => Ok(()),
    }
}

fn one_account(opening: &Account, writes: &[(usize, &Write)], end: &Account) -> Result<(), Breach> {
    let name = &end.account;
    let acknowledged = || writes.iter().copied().filter(|(_, write)| write.is_acknowledged);
    let mut of_version: BTreeMap<i64, (usize, &Write)> = BTreeMap::new();
    for (place, write) in acknowledged() {
        if let Some(earlier) = of_version.insert(write.from, (place, write)) {
            let what = format!("account {name:?}: two writes replaced version {}", write.from);
            return Err(Breach::new(what, [earlier, (place, write)]));
        }
    }
    let outside = |write: &Write| !(opening.version..end.version).contains(&write.from);
    if let Some(strange) = acknowledged().find(|(_, write)| outside(write)) {
        let what = format!("account {name:?} went from version {} to {}", opening.version, end.version);
        return Err(Breach::new(what, [strange]));
    }
    // Each version that no acknowledged write replaced was replaced by one of unknown outcome.
    let mut sums = vec![i128::from(opening.balance)];
    for version in opening.version..end.version {
        let steps: Vec<i128> = if let Some((_, write)) = of_version.get(&version) {
            vec![i128::from(write.by)]
        } else {
            let may = writes.iter().filter(|(_, write)| !write.is_acknowledged && write.from == version);
            may.map(|(_, write)| i128::from(write.by)).collect()
        };
        if steps.is_empty() {
            let what = format!("account {name:?}: nobody wrote what followed version {version}");
            return Err(Breach::new(what, writes.iter().copied()));
        }
        sums = sums.iter().flat_map(|sum| steps.iter().map(move |step| sum + step)).collect();
        sums.sort_unstable();
        sums.dedup();
    }
    if sums.contains(&i128::from(end.balance)) {
        return Ok(());
    }
    let what = format!("account {name:?} holds {}, and its writes come to {sums:?}", end.balance);
    Err(Breach::new(what, writes.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(version: i64, balance: i64) -> Account {
        Account { account: "a".to_owned(), version, balance }
    }

    fn write(from: i64, by: i64, is_acknowledged: bool) -> Write {
        Write { account: "a".to_owned(), transfer: format!("t{from}{by}"), from, by, is_acknowledged }
    }

    #[track_caller]
    fn rejected(writes: &[Write], end: Account, because: &str) {
        let breach = no_update_is_lost(&[account(1, 100)], writes, &[end]).expect_err("an update is lost");
        assert!(breach.to_string().contains(because), "{breach}");
    }

    #[test]
    fn acknowledged_writes_and_some_of_the_unknown_ones_pass() {
        let writes = [write(1, -10, true), write(2, 5, false), write(2, 7, false), write(3, 1, true)];
        for (version, balance) in [(4, 96), (4, 98)] {
            assert_eq!(no_update_is_lost(&[account(1, 100)], &writes, &[account(version, balance)]), Ok(()));
        }
        let unknown = [write(1, -10, true), write(2, 5, false)];
        assert_eq!(no_update_is_lost(&[account(1, 100)], &unknown, &[account(2, 90)]), Ok(()));
        assert_eq!(no_update_is_lost(&[account(1, 100)], &unknown, &[account(3, 95)]), Ok(()));
    }

    #[test]
    fn two_writes_of_one_version_are_rejected() {
        rejected(&[write(1, -10, true), write(1, -20, true)], account(2, 80), "two writes replaced version 1");
    }

    #[test]
    fn version_that_does_not_count_every_write_is_rejected() {
        rejected(&[write(1, -10, true), write(2, -10, true)], account(2, 80), "went from version 1 to 2");
        rejected(&[write(1, -10, true)], account(3, 90), "nobody wrote what followed version 2");
    }

    #[test]
    fn balance_that_no_choice_of_writes_comes_to_is_rejected() {
        rejected(&[write(1, -10, true), write(2, 5, false)], account(3, 90), "come to [95]");
    }

    #[test]
    fn account_that_came_or_went_is_rejected() {
        let missing = no_update_is_lost(&[account(1, 100)], &[write(1, -10, true)], &[]).expect_err("it is gone");
        assert!(missing.to_string().contains("not there any more"), "{missing}");
        let strange = no_update_is_lost(&[], &[], &[account(1, 0)]).expect_err("it is new");
        assert!(strange.to_string().contains("was not there before"), "{strange}");
    }

    #[test]
    fn total_that_moves_is_rejected() {
        assert_eq!(total_is_constant(&[account(1, 100)], &[account(3, 60), account(1, 40)]), Ok(()));
        let breach = total_is_constant(&[account(1, 100)], &[account(2, 90)]).expect_err("ten are gone");
        assert!(breach.to_string().starts_with("the accounts held 100 in all, and hold 90"), "{breach}");
    }
}

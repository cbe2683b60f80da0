//! Whether a unit was lost or made up, and whether each version is one transfer's.

use std::collections::{BTreeMap, HashMap};

use leastlock_testkit::checkers::Breach;

use super::bank::{Bank, Moved};
use super::client::Order;
use super::{ACCOUNTS, OPENING};
use crate::record::Call;
use crate::workload::{Stage, Verdict};

/// Judges what the clients were told against what is in the database.
pub(super) fn of(bank: &Bank, calls: &[Call<Order, Option<Moved>>], stage: Stage) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict { cycles: bank.moved.len() as u64, ..Verdict::default() };
    verdict.count("transfers", bank.moved.len());
    verdict.expect(total(bank));
    verdict.expect(balances(bank));
    verdict.expect(versions(bank));
    if stage == Stage::Settled {
        verdict.expect(answers(bank, calls));
    }
    Ok(verdict)
}

fn total(bank: &Bank) -> Result<(), Breach> {
    let total: i64 = bank.accounts.iter().map(|(_, balance, _)| balance).sum();
    if total == ACCOUNTS * OPENING {
        return Ok(());
    }
    let what = format!("all accounts together have {total}, not {}", ACCOUNTS * OPENING);
    Err(Breach::new(what, bank.accounts.iter().enumerate()))
}

/// Each account has what the committed transfers left on it.
fn balances(bank: &Bank) -> Result<(), Breach> {
    let mut expected: BTreeMap<i64, i64> = bank.accounts.iter().map(|(id, ..)| (*id, OPENING)).collect();
    for moved in &bank.moved {
        *expected.entry(moved.debtor).or_default() -= moved.units;
        *expected.entry(moved.creditor).or_default() += moved.units;
    }
    let wrong = bank.accounts.iter().enumerate().filter(|(_, (id, balance, _))| expected[id] != *balance);
    let wrong: Vec<_> = wrong.collect();
    if wrong.is_empty() { Ok(()) } else { Err(Breach::new("balances that no transfers explain", wrong)) }
}

/// Each commit raised the version of both accounts by one, and no two of them from the same.
fn versions(bank: &Bank) -> Result<(), Breach> {
    let mut of_account: HashMap<i64, Vec<i64>> = HashMap::new();
    for moved in &bank.moved {
        of_account.entry(moved.debtor).or_default().push(moved.debtor_version);
        of_account.entry(moved.creditor).or_default().push(moved.creditor_version);
    }
    for (place, (id, _, version)) in bank.accounts.iter().enumerate() {
        let mut given = of_account.remove(id).unwrap_or_default();
        given.sort_unstable();
        let expected: Vec<i64> = (2..=*version).collect();
        if given != expected {
            let odd = given.iter().zip(&expected).position(|(given, expected)| given != expected);
            let what =
                format!("account {id}: its version is {version} after {} transfers; odd at {odd:?}", given.len());
            return Err(Breach::new(what, [(place, &bank.accounts[place])]));
        }
    }
    Ok(())
}

/// What a client was told is so: each done one is there as told, and no refused one is.
fn answers(bank: &Bank, calls: &[Call<Order, Option<Moved>>]) -> Result<(), Breach> {
    let moved: HashMap<&str, &Moved> = bank.moved.iter().map(|moved| (moved.id.as_str(), moved)).collect();
    for (place, call) in calls.iter().enumerate() {
        let Some(answer) = &call.answer else { continue };
        let there = moved.get(call.call.id.as_str()).copied();
        if there != answer.value.as_ref() {
            return Err(Breach::new(format!("{place}: told {answer:?}, and there is {there:?}"), [(place, call)]));
        }
    }
    Ok(())
}

//! Whether a lower token was applied after a higher one, and whether the lock was one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use leastlock_testkit::checkers::Breach;
use leastlock_testkit::checkers::fencing::{Attempt, Outcome, fenced};
use leastlock_testkit::checkers::mutex::{Said, What, fenced_mutex};

use super::holder::{SEAL, SEALING, Sealing, WRITE};
use super::recorded::{ASK, Ask, Asked, Told};
use super::shelf::Batch;
use crate::record::{Call, Journal};
use crate::workload::Verdict;

/// How far the store's clock may run ahead of the machine's within a hold.
const SLACK_MS: i64 = 60;
/// So long after a living holder has begun to seal, nothing of an older generation is applied any more.
const STARVED: Duration = Duration::from_secs(3);
/// A holder that seals shows that it lives; after a longer silence it did not.
const SILENCE: Duration = Duration::from_millis(700);

/// Judges what was applied, in its order, and what the lock store and the resource have answered.
pub(super) fn of(batches: &[Batch], halves: &[String], journal: &Journal, one_store: bool) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::default();
    let attempt = |batch: &Batch| Attempt::new("shelf", batch.token, &*batch.owner, Outcome::Applied);
    let attempts: Vec<Attempt> = batches.iter().map(attempt).collect();
    verdict.expect(fenced(&attempts));
    let half = halves.iter().enumerate();
    verdict.expect(if halves.is_empty() { Ok(()) } else { Err(Breach::new("batches that are not whole", half)) });
    let writes = journal.calls::<Batch, ()>(WRITE)?;
    verdict.expect(answers(batches, &writes));
    let asked = journal.calls::<Asked, Told>(ASK)?;
    let said = said(&asked);
    if one_store {
        verdict.expect(fenced_mutex(&said, SLACK_MS));
    }
    verdict.expect(starved(&writes, journal)?);
    let holders: HashSet<(&str, i64)> = batches.iter().map(|batch| (&*batch.owner, batch.token)).collect();
    verdict.cycles = holders.len() as u64;
    verdict.count("batches", batches.len());
    verdict.count("holds", holders.len());
    let is_refused = |call: &&Call<Batch, ()>| call.answer.as_ref().is_some_and(|answer| !answer.ok);
    verdict.count("refused batches", writes.iter().filter(is_refused).count());
    verdict.count("grants", said.iter().filter(|said| matches!(said.what, What::Granted(_))).count());
    Ok(verdict)
}

/// What a writer was told is done is there once, and what it was told is refused is not.
fn answers(batches: &[Batch], writes: &[Call<Batch, ()>]) -> Result<(), Breach> {
    let mut there: HashMap<&str, usize> = HashMap::new();
    for batch in batches {
        *there.entry(&batch.id).or_default() += 1;
    }
    for (place, write) in writes.iter().enumerate() {
        let Some(answer) = &write.answer else { continue };
        let count = there.get(&*write.call.id).copied().unwrap_or_default();
        if count != usize::from(answer.ok) {
            return Err(Breach::new(
                format!("a writer was told {}, and there are {count}", answer.ok),
                [(place, write)],
            ));
        }
    }
    Ok(())
}

/// What the lock store said yes to, or may have.
fn said(asked: &[Call<Asked, Told>]) -> Vec<Said> {
    let ms = |at: Duration| i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    let grants = asked.iter().filter(|call| call.call.ask == Ask::Acquire);
    let token_of: BTreeMap<&str, i64> =
        grants.filter_map(|call| Some((&*call.call.owner, call.done()?.token))).collect();
    let said = asked.iter().filter_map(|call| {
        if call.answer.as_ref().is_some_and(|answer| !answer.ok) {
            return None;
        }
        let told = call.done();
        let (what, token) = match call.call.ask {
            Ask::Acquire => (What::Granted(told?.ttl_ms), told?.token),
            Ask::Renew => (What::Extended(told?.ttl_ms), told?.token),
            Ask::Release => (What::Freed, *token_of.get(&*call.call.owner)?),
        };
        Some(Said {
            lock: "shelf".to_owned(),
            owner: call.call.owner.clone(),
            token,
            what,
            called_ms: ms(call.at),
            answered_ms: call.answer.as_ref().map(|answer| ms(answer.at)),
        })
    });
    said.collect()
}

/// A holder that seals is not kept waiting by those of older generations: they are let in no more.
fn starved(writes: &[Call<Batch, ()>], journal: &Journal) -> anyhow::Result<Result<(), Breach>> {
    let signs = journal.notes::<Sealing>(SEALING)?;
    for seal in journal.calls::<Sealing, ()>(SEAL)? {
        let mut alive_until = seal.at;
        for sign in signs.iter().filter(|sign| sign.by == seal.by && sign.note.owner == seal.call.owner) {
            if sign.at > alive_until + SILENCE {
                break;
            }
            alive_until = alive_until.max(sign.at);
        }
        let late = writes.iter().enumerate().find(|(_, write)| {
            write.call.token < seal.call.token
                && write.at > seal.at + STARVED
                && write.at < alive_until
                && write.done().is_some()
        });
        if let Some((place, late)) = late {
            let waited = late.at.saturating_sub(seal.at);
            let what =
                format!("token {} was let in {waited:?} after {} had begun to seal", late.call.token, seal.call.token);
            return Ok(Err(Breach::new(what, [(place, late)])));
        }
    }
    Ok(Ok(()))
}

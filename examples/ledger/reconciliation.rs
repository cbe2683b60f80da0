//! What must agree at the end: the books, and the entries as they were produced.

use std::collections::BTreeMap;

use crate::entries::{Entry, Expected, expected};
use crate::ledger::{Books, Posting};

/// So many breaches are told one by one.
const TOLD: usize = 20;

/// Everything that is wrong with the books, a line each.
pub(crate) fn breaches(entries: &[Entry], books: &Books) -> Vec<String> {
    let mut of_account = BTreeMap::<&str, Vec<&Posting>>::new();
    for posting in &books.postings {
        of_account.entry(&posting.account).or_default().push(posting);
    }
    let mut breaches = Vec::new();
    for (account, expected) in expected(entries) {
        judge(account, &expected, &of_account.remove(account).unwrap_or_default(), &mut breaches);
        match books.balances.get(account) {
            Some(balance) if *balance == expected.balance => {}
            balance => {
                let right = expected.balance;
                breaches.push(format!("{account}: the balance is {balance:?}, and the entries come to {right}"));
            }
        }
    }
    for account in of_account.keys() {
        breaches.push(format!("{account}: there are postings, and no entry was produced"));
    }
    let more = breaches.len().saturating_sub(TOLD);
    breaches.truncate(TOLD);
    if more > 0 {
        breaches.push(format!("and {more} more"));
    }
    breaches
}

/// Each entry has one posting; in their order; decided as it must be.
fn judge(account: &str, expected: &Expected, postings: &[&Posting], breaches: &mut Vec<String>) {
    let mut times = vec![0_u32; expected.applied.len()];
    let mut last = 0;
    for posting in postings {
        let sequence = posting.sequence;
        let place = usize::try_from(sequence - 1).ok().filter(|place| *place < times.len());
        let Some(place) = place else {
            breaches.push(format!("{account}: entry {sequence} was posted, and never produced"));
            continue;
        };
        times[place] += 1;
        if times[place] > 1 {
            breaches.push(format!("{account}: entry {sequence} was posted {} times", times[place]));
            continue;
        }
        if sequence != last + 1 {
            breaches.push(format!("{account}: entry {sequence} was posted after entry {last}"));
        }
        if posting.applied != expected.applied[place] {
            let [was, right] =
                [posting.applied, expected.applied[place]].map(|applied| if applied { "applied" } else { "refused" });
            breaches.push(format!("{account}: entry {sequence} was {was}, and had to be {right}"));
        }
        last = sequence;
    }
    for (place, _) in times.iter().enumerate().filter(|(_, times)| **times == 0) {
        breaches.push(format!("{account}: entry {} is lost", place + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::Moved;

    fn entries() -> Vec<Entry> {
        let entry = |(sequence, cents)| Entry { account: "a".to_owned(), moved: Moved { sequence, cents } };
        [(1, 10), (2, -4), (3, -7)].map(entry).to_vec()
    }

    fn books(postings: &[(i64, bool)], balance: i64) -> Books {
        let posting = |(sequence, applied): &(i64, bool)| Posting {
            account: "a".to_owned(),
            sequence: *sequence,
            applied: *applied,
        };
        Books { postings: postings.iter().map(posting).collect(), balances: [("a".to_owned(), balance)].into() }
    }

    #[test]
    fn books_that_agree_have_no_breach() {
        assert_eq!(breaches(&entries(), &books(&[(1, true), (2, true), (3, false)], 6)), Vec::<String>::new());
    }

    #[test]
    fn every_way_to_be_wrong_is_told() {
        let wrong: [(&[(i64, bool)], i64, &str); 7] = [
            (&[(1, true), (2, true)], 6, "a: entry 3 is lost"),
            (&[(1, true), (2, true), (2, true), (3, false)], 6, "a: entry 2 was posted 2 times"),
            (&[(1, true), (3, false), (2, true)], 6, "a: entry 3 was posted after entry 1"),
            (&[(1, true), (2, true), (3, true)], 6, "a: entry 3 was applied, and had to be refused"),
            (&[(1, true), (2, false), (3, false)], 6, "a: entry 2 was refused, and had to be applied"),
            (&[(1, true), (2, true), (3, false), (4, true)], 6, "a: entry 4 was posted, and never produced"),
            (&[(1, true), (2, true), (3, false)], 2, "a: the balance is Some(2), and the entries come to 6"),
        ];
        for (postings, balance, breach) in wrong {
            let found = breaches(&entries(), &books(postings, balance));
            assert!(found.iter().any(|found| found == breach), "{breach}: {found:?}");
        }
    }

    #[test]
    fn an_account_that_nobody_named_is_a_breach() {
        let mut books = books(&[(1, true), (2, true), (3, false)], 6);
        books.postings.push(Posting { account: "b".to_owned(), sequence: 1, applied: true });
        assert_eq!(breaches(&entries(), &books), ["b: there are postings, and no entry was produced"]);
    }
}

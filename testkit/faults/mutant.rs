//! Mutants: a mechanism with its classic mistake, which the same workload and the same checks must catch.

use std::time::Duration;

use crate::inject::Blow;
use crate::workload::{self, Choice};

/// How long after its first injection a mutant must be caught.
pub(crate) const CAUGHT_WITHIN: Duration = Duration::from_secs(60);

/// A mechanism with its classic mistake.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mutant {
    /// What the mistake is.
    pub(crate) name: &'static str,
    /// The workload that makes it, if it is told this name.
    pub(crate) workload: &'static str,
    /// What brings it out, beside the workload's own menu; empty for those that mere concurrency does.
    pub(crate) blows: &'static [(Option<&'static str>, Blow, std::ops::Range<u64>)],
}

impl Mutant {
    /// What happens to it: only what brings the mistake out.
    pub(crate) fn menu(&self, menu: Vec<Choice>) -> Vec<Choice> {
        if self.blows.is_empty() {
            return menu;
        }
        let choice = |(role, blow, lasts_ms): &(Option<&'static str>, Blow, std::ops::Range<u64>)| Choice {
            blow: *blow,
            role: *role,
            lasts_ms: lasts_ms.clone(),
        };
        self.blows.iter().map(choice).collect()
    }
}

/// All mutants.
pub(crate) fn all() -> impl Iterator<Item = &'static Mutant> {
    TRANSFERS.iter().chain(workload::intake::MUTANTS).chain(workload::ledger::MUTANTS)
}

const TRANSFERS: &[Mutant] =
    &[Mutant { name: "retry inside the transaction", workload: "transfers/postgres", blows: &[] }];

//! Mutants: a mechanism with its classic mistake, which the same workload and the same checks must catch.

use std::time::Duration;

use crate::ground::Server;
use crate::inject::Blow;
use crate::workload::{self, Choice};

/// How long after its first injection a mutant must be caught.
pub(crate) const CAUGHT_WITHIN: Duration = Duration::from_mins(1);

/// A mechanism with its classic mistake.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mutant {
    /// What the mistake is.
    pub(crate) name: &'static str,
    /// The workload that makes it, if it is told this name.
    pub(crate) workload: &'static str,
    /// What brings it out, instead of the workload's own menu; empty for those that mere concurrency does. What is for no role is for
    /// whichever process had the last success.
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
    VERSIONS_AND_LEASES
        .iter()
        .chain(workload::intake::MUTANTS)
        .chain(workload::ledger::MUTANTS)
        .chain(workload::payments::MUTANTS)
}

const VERSIONS_AND_LEASES: &[Mutant] = &[
    Mutant { name: "retry inside the transaction", workload: "transfers/postgres", blows: &[] },
    Mutant {
        name: "no fence check",
        workload: "writer/postgres",
        blows: &[(None, Blow::StopAt("permitted"), 3_500..6_000)],
    },
    Mutant {
        name: "fence check without the share lock",
        workload: "writer/postgres",
        blows: &[(None, Blow::StopAt("checked"), 3_500..6_000)],
    },
    Mutant {
        name: "one-step seal",
        workload: "writer/redis",
        blows: &[(None, Blow::Believe(Server::Redis), 8_000..10_000)],
    },
    // Not for the holder alone: it is who waits that takes what is not free.
    Mutant { name: "client clock", workload: "writer/postgres", blows: &[(Some("writer"), Blow::Clock, 3_000..6_000)] },
    Mutant {
        name: "renewal by upsert",
        workload: "writer/postgres",
        blows: &[(None, Blow::StopAt("renewing"), 3_500..6_000)],
    },
];

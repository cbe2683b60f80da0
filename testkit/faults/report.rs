//! What is told of a run.

use crate::run::Outcome;

/// One line of a scenario that has ended.
pub(crate) fn line(outcome: &Outcome) -> String {
    let counts = outcome.counts;
    let verdict = match (outcome.scenario.mutant, outcome.caught_after) {
        (None, _) if outcome.is_good() => "no breach".to_owned(),
        (None, _) => format!("BREACH: {}", outcome.verdict.breaches.join("\n")),
        (Some(_), Some(after)) => {
            let first = outcome.verdict.breaches.first().and_then(|breach| breach.lines().next());
            format!("caught after {:.1} s: {}", after.as_secs_f64(), first.unwrap_or_default())
        }
        (Some(_), None) => "NOT CAUGHT".to_owned(),
    };
    format!(
        "{}: {} injections, {} calls ({} done, {} refused, {} unknown), settled after {:.1?}; {verdict}",
        outcome.scenario.name(),
        outcome.struck.len(),
        counts.calls,
        counts.done,
        counts.refused,
        counts.unknown(),
        outcome.settled_after.unwrap_or_default(),
    )
}

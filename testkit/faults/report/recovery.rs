//! How long nothing succeeded because of an injection, and how long its target took to succeed again.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::fleet::is_of;
use crate::record::Success;
use crate::run::{Outcome, Struck};

/// So long after its end, a pause still counts for an injection.
const AFTER: Duration = Duration::from_secs(1);

/// What injections of one kind led to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Recovery {
    pub(crate) kind: String,
    pub(crate) injections: usize,
    /// The longest pause of all processes of the scenario together, in seconds. Where injections overlap it counts for each.
    pub(crate) pause_s: Quantiles,
    /// From the end of the injection until the process that met it had its next success, in seconds; of those that had one.
    pub(crate) own_s: Option<Quantiles>,
}

/// Of a set of times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) median: f64,
    pub(crate) p90: f64,
    pub(crate) max: f64,
}

impl Quantiles {
    fn of(mut times: Vec<f64>) -> Option<Self> {
        times.sort_by(f64::total_cmp);
        let last = times.len().checked_sub(1)?;
        Some(Self { median: times[last / 2], p90: times[last * 9 / 10], max: times[last] })
    }
}

/// By kind of injection, over all scenarios.
pub(crate) fn by_kind<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Vec<Recovery> {
    let mut kinds: BTreeMap<String, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for outcome in outcomes {
        for struck in &outcome.struck {
            let (pauses, own) = kinds.entry(struck.injection.blow.to_string()).or_default();
            pauses.push(pause((struck.began, struck.ended), &outcome.successes).as_secs_f64());
            own.extend(own_after(struck, &outcome.successes).map(|own| own.as_secs_f64()));
        }
        for restart in &outcome.restarts {
            let (pauses, _) = kinds.entry(format!("{} killed and restarted", restart.server.name())).or_default();
            pauses.push(pause((restart.began, restart.ended), &outcome.successes).as_secs_f64());
        }
    }
    let recovery = |(kind, (pauses, own)): (String, (Vec<f64>, Vec<f64>))| {
        let injections = pauses.len();
        Some(Recovery { kind, injections, pause_s: Quantiles::of(pauses)?, own_s: Quantiles::of(own) })
    };
    kinds.into_iter().filter_map(recovery).collect()
}

/// The longest time between two successes, of those that overlap the injection and a moment after it.
fn pause((began, ended): (Duration, Duration), successes: &[Success]) -> Duration {
    let (from, to) = (began, ended + AFTER);
    let first = successes.partition_point(|success| success.at < from).saturating_sub(1);
    let pauses = successes[first..].windows(2).take_while(|pair| pair[0].at < to);
    pauses.map(|pair| pair[1].at.saturating_sub(pair[0].at)).max().unwrap_or_default()
}

fn own_after(struck: &Struck, successes: &[Success]) -> Option<Duration> {
    let own = successes.iter().find(|success| success.began >= struck.ended && is_of(&success.by, &struck.target))?;
    Some(own.at.saturating_sub(struck.ended))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inject::Blow;
    use crate::schedule::Injection;

    fn success(by: &str, began: u64, at: u64) -> Success {
        Success { by: by.to_owned(), began: Duration::from_millis(began), at: Duration::from_millis(at) }
    }

    fn struck(began: u64, ended: u64) -> Struck {
        let [began, ended] = [began, ended].map(Duration::from_millis);
        let injection = Injection {
            at: began,
            blow: Blow::Stop,
            target: 0,
            is_for_the_latest: false,
            lasts: ended.saturating_sub(began),
        };
        Struck { injection, target: "client-1".to_owned(), place: 0, began, ended }
    }

    #[test]
    fn the_longest_pause_that_overlaps_counts_also_if_it_began_before() {
        let successes = [success("a", 0, 10), success("a", 80, 90), success("a", 95, 100), success("a", 5_000, 9_000)];
        let of = |began, ended, successes: &[Success]| {
            pause((Duration::from_millis(began), Duration::from_millis(ended)), successes)
        };
        assert_eq!(of(20, 30, &successes), Duration::from_millis(8_900));
        assert_eq!(of(9_100, 9_200, &successes), Duration::ZERO);
        let early = [success("a", 0, 10), success("a", 80, 90), success("a", 2_000, 2_010), success("a", 3_000, 9_000)];
        assert_eq!(of(20, 30, &early), Duration::from_millis(1_920));
    }

    #[test]
    fn own_recovery_is_of_the_same_process_whichever_incarnation_and_began_after() {
        let successes =
            [success("client-1-0", 0, 500), success("client-11-0", 200, 300), success("client-1-1", 250, 320)];
        assert_eq!(own_after(&struck(100, 200), &successes), Some(Duration::from_millis(120)));
        assert_eq!(own_after(&struck(100, 400), &successes), None);
    }
}

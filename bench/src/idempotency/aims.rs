//! The ratios that the project aims at, and what a step and a request cost.

use super::round_trips::RoundTrips;
use super::steps::Work;
use super::{http, requests, steps};
use crate::contest::{Comparison, Entry};
use crate::report::Aim;
use crate::statistics::Spread;

/// The number of clients at which keys are judged, and what is aimed at there.
const JUDGED_AT: u32 = 16;
const FIRST_OVER_BARE: &str = "aim: 0.6 or more";
const REPLAY_OVER_FIRST: &str = "aim: 3 or more";

/// Those that the run has measured both sides of.
pub(super) fn of(comparisons: &[Comparison], round_trips: Option<&RoundTrips>) -> Vec<Aim> {
    let mut aims = Vec::new();
    for comparison in comparisons {
        let table = Table(comparison);
        match comparison.measure {
            requests::MEASURE => aims.extend(table.keys()),
            steps::MEASURE => aims.extend(table.steps(round_trips)),
            http::MEASURE => aims.extend(table.http()),
            _ => {}
        }
    }
    aims
}

/// What was measured at one number of clients.
struct Table<'a>(&'a Comparison);

impl Table<'_> {
    fn keys(&self) -> Vec<Aim> {
        let [bare, first, replay] =
            [requests::Way::Bare, requests::Way::Leastlock, requests::Way::LeastlockAgain].map(requests::Way::name);
        let judged = self.0.clients == JUDGED_AT;
        let aims = [(first, bare, FIRST_OVER_BARE), (replay, first, REPLAY_OVER_FIRST)];
        let aims = aims.map(|(of, by, aim)| self.ratio(of, by, if judged { aim } else { "" }));
        aims.into_iter().flatten().collect()
    }

    /// What one step more costs: the time of a run, less that of a run without it.
    fn steps(&self, round_trips: Option<&RoundTrips>) -> Vec<Aim> {
        use Work::{Bare, FourLocal, NoStep, OneExternal, OneLocal, TwoLocal};
        let costs = [
            ("bare transaction", Bare, None, 1),
            ("claim and completion", NoStep, None, 1),
            ("first local step", OneLocal, Some(NoStep), 1),
            ("second local step", TwoLocal, Some(OneLocal), 1),
            ("third and fourth local step, each", FourLocal, Some(TwoLocal), 2),
            ("external step", OneExternal, Some(NoStep), 1),
        ];
        let aim = |(what, with, without, steps): (&str, Work, Option<Work>, u32)| {
            let value = self.difference(with.name(), without.map(Work::name), steps)?;
            let trips = round_trips.map_or("no round trips".to_owned(), |trips| {
                let of = |work: Work| trips[Work::ALL.iter().position(|one| *one == work).unwrap_or_default()];
                let more = of(with).saturating_sub(without.map_or(0, of)) / u64::from(steps);
                format!("{more} round trips")
            });
            Some(Aim { what: self.labelled(what, &format!("µs, {trips}")), value })
        };
        costs.into_iter().filter_map(aim).collect()
    }

    fn http(&self) -> Vec<Aim> {
        use http::Way;
        let bare = Way::Bare.name();
        let ways = [Way::PassedOn, Way::ExtractFirst, Way::ReplayFirst];
        let mut aims: Vec<_> = ways.iter().filter_map(|way| self.more(way.name(), bare)).collect();
        for (of, by) in [
            (Way::ExtractFirst, Way::Bare),
            (Way::ReplayFirst, Way::Bare),
            (Way::ExtractAgain, Way::ExtractFirst),
            (Way::ReplayAgain, Way::ReplayFirst),
        ] {
            aims.extend(self.ratio(of.name(), by.name(), ""));
        }
        aims
    }

    /// Throughput of the one over that of the other.
    fn ratio(&self, of: &str, by: &str, aim: &str) -> Option<Aim> {
        let per_second = |name| Some(self.entry(name)?.values(|round| round.per_second));
        let value = Spread::of_ratios(&per_second(of)?, &per_second(by)?)?;
        Some(Aim { what: self.labelled(&format!("{of} / {by}"), aim), value })
    }

    /// How much longer the one takes than the other.
    fn more(&self, of: &str, than: &str) -> Option<Aim> {
        let value = self.difference(of, Some(than), 1)?;
        Some(Aim { what: self.labelled(&format!("{of} more than {than}"), "µs"), value })
    }

    /// The time of the one in µs, less that of the other, by round; of each of `parts` equal parts.
    fn difference(&self, with: &str, without: Option<&str>, parts: u32) -> Option<Spread> {
        let with = self.times_us(with)?;
        let without = match without {
            Some(name) => self.times_us(name)?,
            None => vec![0.0; with.len()],
        };
        Spread::of(with.iter().zip(without).map(|(with, without)| (with - without) / f64::from(parts)))
    }

    /// The mean time of an operation in each round. The clients do nothing else, so that it is their number divided by the
    /// throughput (Little, "A Proof for the Queuing Formula L = λW", 1961); means may be subtracted, medians may not.
    fn times_us(&self, name: &str) -> Option<Vec<f64>> {
        let clients = f64::from(self.0.clients);
        Some(self.entry(name)?.values(|round| 1e6 * clients / round.per_second))
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.0.entries.iter().find(|entry| entry.name == name)
    }

    fn labelled(&self, what: &str, detail: &str) -> String {
        let Comparison { measure, clients, .. } = self.0;
        let noun = if *clients == 1 { "client" } else { "clients" };
        let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
        format!("{measure}, {clients} {noun}, {what}{detail}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::entry;

    fn comparison(measure: &'static str, clients: u32, entries: &[(&'static str, [f64; 3])]) -> Comparison {
        let entries = entries.iter().map(|(name, rounds)| entry(name, *rounds)).collect();
        Comparison { measure, clients, connections: clients, entries }
    }

    fn found(comparison: Comparison, round_trips: Option<&RoundTrips>) -> Vec<(String, f64)> {
        of(&[comparison], round_trips).into_iter().map(|aim| (aim.what, aim.value.median)).collect()
    }

    fn assert_found(found: &[(String, f64)], expected: &[(&str, f64)]) {
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((what, value), (expected_what, expected)) in found.iter().zip(expected) {
            assert_eq!(what, expected_what);
            assert!((value - expected).abs() < 1e-6, "{what}: {value}, where {expected} is right");
        }
    }

    #[test]
    fn keys_are_judged_at_sixteen_clients() {
        let entries = [
            ("bare transaction", [100.0, 200.0, 100.0]),
            ("first, leastlock", [60.0, 140.0, 70.0]),
            ("replay, leastlock", [240.0, 420.0, 280.0]),
        ];
        let at = |clients| found(comparison(requests::MEASURE, clients, &entries), None);
        let judged = [
            ("request, 16 clients, first, leastlock / bare transaction (aim: 0.6 or more)", 0.7),
            ("request, 16 clients, replay, leastlock / first, leastlock (aim: 3 or more)", 4.0),
        ];
        assert_found(&at(16), &judged);
        let others = [
            ("request, 1 client, first, leastlock / bare transaction", 0.7),
            ("request, 1 client, replay, leastlock / first, leastlock", 4.0),
        ];
        assert_found(&at(1), &others);
    }

    #[test]
    fn a_step_costs_what_a_run_with_it_takes_longer() {
        // 500, 1,000, 1,700, 2,500, 4,500 and 1,900 µs at one client; twice as long at two.
        let entries = [
            ("bare transaction", [2000.0; 3]),
            ("no step", [1000.0; 3]),
            ("1 local step", [1e6 / 1700.0; 3]),
            ("2 local steps", [400.0; 3]),
            ("4 local steps", [1e6 / 4500.0; 3]),
            ("1 external step", [1e6 / 1900.0; 3]),
        ];
        let expected = [
            ("phased run, 1 client, bare transaction (µs, 3 round trips)", 500.0),
            ("phased run, 1 client, claim and completion (µs, 2 round trips)", 1000.0),
            ("phased run, 1 client, first local step (µs, 4 round trips)", 700.0),
            ("phased run, 1 client, second local step (µs, 4 round trips)", 800.0),
            ("phased run, 1 client, third and fourth local step, each (µs, 4 round trips)", 1000.0),
            ("phased run, 1 client, external step (µs, 2 round trips)", 900.0),
        ];
        assert_found(&found(comparison(steps::MEASURE, 1, &entries), Some(&[3, 2, 6, 10, 18, 4])), &expected);
        let two = found(comparison(steps::MEASURE, 2, &entries[..2]), None);
        let expected = [
            ("phased run, 2 clients, bare transaction (µs, no round trips)", 1000.0),
            ("phased run, 2 clients, claim and completion (µs, no round trips)", 2000.0),
        ];
        assert_found(&two, &expected);
    }

    #[test]
    fn a_layer_costs_what_a_request_takes_longer() {
        let entries = [
            ("bare handler", [1000.0; 3]),
            ("layer alone", [800.0; 3]),
            ("first, extract mode", [500.0; 3]),
            ("replay, extract mode", [2000.0; 3]),
        ];
        let expected = [
            ("HTTP request, 1 client, layer alone more than bare handler (µs)", 250.0),
            ("HTTP request, 1 client, first, extract mode more than bare handler (µs)", 1000.0),
            ("HTTP request, 1 client, first, extract mode / bare handler", 0.5),
            ("HTTP request, 1 client, replay, extract mode / first, extract mode", 4.0),
        ];
        assert_found(&found(comparison(http::MEASURE, 1, &entries), None), &expected);
    }
}

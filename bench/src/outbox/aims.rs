//! The ratios that the project aims at.

use super::latency::{self, Condition};
use super::{Way, crash, drain};
use crate::report::Aim;
use crate::sheet::Sheet;
use crate::statistics::Spread;

/// Those that the run has measured both sides of.
pub(super) fn of(sheets: &[Sheet]) -> Vec<Aim> {
    let mut aims = Vec::new();
    for sheet in sheets {
        match sheet.part {
            drain::PART => aims.extend(sheet.settings().into_iter().flat_map(|setting| drained(sheet, setting))),
            latency::PART => {
                aims.extend(sheet.settings().into_iter().flat_map(|setting| late(sheet, setting)));
                aims.extend(sheet.settings().into_iter().flat_map(|setting| beside(sheet, setting)));
            }
            crash::PART => aims.extend(sheet.settings().into_iter().flat_map(|setting| crashed(sheet, setting))),
            _ => {}
        }
    }
    aims
}

fn drained(sheet: &Sheet, setting: &str) -> Vec<Aim> {
    let [by_loop, relay, produce] = [Way::Loop, Way::Relay, Way::Produce].map(Way::name);
    let aims = [
        sheet.ratio(setting, drain::SPEED, relay, by_loop, "aim: 1.5 or more"),
        sheet.ratio(setting, drain::SPEED, relay, produce, "aim: 0.5 or more"),
        sheet.ratio(setting, drain::OWN_CPU, relay, by_loop, "aim: 2 or less"),
    ];
    aims.into_iter().flatten().collect()
}

fn late(sheet: &Sheet, setting: &str) -> Vec<Aim> {
    let [by_loop, relay, woken] = [Way::Loop, Way::Relay, Way::RelayWoken].map(Way::name);
    let aims = [
        sheet.ratio(setting, latency::P50, relay, by_loop, "aim: 1.5 or less"),
        sheet.ratio(setting, latency::P99, relay, by_loop, "aim: 2 or less"),
        sheet.ratio(setting, latency::P50, woken, by_loop, ""),
        sheet.ratio(setting, latency::P99, woken, by_loop, ""),
    ];
    aims.into_iter().flatten().collect()
}

/// The relay beside an open transaction, over itself without one.
fn beside(sheet: &Sheet, setting: &str) -> Vec<Aim> {
    let Some((rate, condition)) = setting.split_once(", ") else { return Vec::new() };
    let (alone, relay) = (Condition::Alone.name(), Way::Relay.name());
    if condition == alone {
        return Vec::new();
    }
    let aim = |figure| {
        let of = sheet.values(setting, relay, figure)?;
        let by = sheet.values(&format!("{rate}, {alone}"), relay, figure)?;
        let what = format!("{}, {rate}: {figure}, {relay}, {condition} / {alone} (aim: 1.2 or less)", sheet.part);
        Some(Aim { what, value: Spread::of_ratios(&of, &by)? })
    };
    [latency::P50, latency::P99].into_iter().filter_map(aim).collect()
}

fn crashed(sheet: &Sheet, setting: &str) -> Vec<Aim> {
    let relay = Way::Relay.name();
    let aim = |figure, aim| {
        let value = Spread::of(sheet.values(setting, relay, figure)?)?;
        Some(Aim { what: format!("{}, {setting}: {figure}, {relay} (aim: {aim})", sheet.part), value })
    };
    let aims = [
        aim(crash::BEYOND, "1 or less"),
        aim(crash::DOUBLED, "what was in flight"),
        aim(crash::LOST, "0"),
        aim(crash::INVERTED, "0"),
    ];
    aims.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sheet: Sheet) -> Vec<(String, f64)> {
        of(&[sheet]).into_iter().map(|aim| (aim.what, aim.value.median)).collect()
    }

    fn assert_found(found: &[(String, f64)], expected: &[(&str, f64)]) {
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((what, value), (expected_what, expected)) in found.iter().zip(expected) {
            assert_eq!(what, expected_what);
            assert!((value - expected).abs() < 1e-6, "{what}: {value}, where {expected} is right");
        }
    }

    #[test]
    fn a_drain_is_judged_by_the_loop_and_by_the_producer_alone() {
        let mut sheet = Sheet::new(drain::PART, None, &[drain::SPEED, drain::OWN_CPU]);
        for (way, speed, cpu) in [(Way::Loop, 100.0, 1.0), (Way::Relay, 160.0, 1.5), (Way::Produce, 200.0, 0.5)] {
            sheet.note("few", way.name(), vec![speed, cpu]);
        }
        let expected = [
            ("drain, few: events/s, relay / hand-written loop (aim: 1.5 or more)", 1.6),
            ("drain, few: events/s, relay / produce alone (aim: 0.5 or more)", 0.8),
            ("drain, few: own CPU s/100k, relay / hand-written loop (aim: 2 or less)", 1.5),
        ];
        assert_found(&found(sheet), &expected);
    }

    #[test]
    fn an_open_transaction_is_judged_by_the_relay_without_one() {
        let mut sheet = Sheet::new(latency::PART, None, &[latency::P50, latency::P99]);
        let settings = [Condition::Alone, Condition::OpenHere].map(|condition| latency::setting(500.0, condition));
        sheet.note(&settings[0], Way::Relay.name(), vec![2.0, 10.0]);
        sheet.note(&settings[1], Way::Relay.name(), vec![2.2, 30.0]);
        let here = "commit to consumer, 500 tx/s";
        let expected = [
            (format!("{here}: p50 ms, relay, open transaction here / alone (aim: 1.2 or less)"), 1.1),
            (format!("{here}: p99 ms, relay, open transaction here / alone (aim: 1.2 or less)"), 3.0),
        ];
        assert_found(&found(sheet), &expected.each_ref().map(|(what, value)| (what.as_str(), *value)));
    }

    #[test]
    fn a_crash_is_judged_by_the_relay_alone() {
        let figures = [crash::BEYOND, crash::DOUBLED, crash::LOST, crash::INVERTED];
        let mut sheet = Sheet::new(crash::PART, None, &figures);
        sheet.note("s", Way::Loop.name(), vec![0.1, 5000.0, 0.0, 0.0]);
        sheet.note("s", Way::Relay.name(), vec![0.3, 700.0, 0.0, 0.0]);
        let expected = [
            ("crash, s: beyond the lease s, relay (aim: 1 or less)", 0.3),
            ("crash, s: duplicates, relay (aim: what was in flight)", 700.0),
            ("crash, s: lost, relay (aim: 0)", 0.0),
            ("crash, s: inverted, relay (aim: 0)", 0.0),
        ];
        assert_found(&found(sheet), &expected);
    }
}

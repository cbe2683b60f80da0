//! The ratios that the project aims at.

use clap::ValueEnum;

use super::{Backend, CYCLES, P99_WAIT, Part, SHARE, Way};
use crate::report::Aim;
use crate::sheet::Sheet;
use crate::statistics::Spread;

/// Those that the run has measured both sides of.
pub(super) fn of(sheets: &[Sheet]) -> Vec<Aim> {
    let mut aims = Vec::new();
    for sheet in sheets {
        for setting in sheet.settings() {
            if sheet.part == Part::Own.name() {
                aims.extend(alone(sheet, setting));
            } else {
                aims.extend(among_rivals(sheet, setting));
            }
        }
    }
    aims
}

fn alone(sheet: &Sheet, setting: &str) -> Vec<Aim> {
    let raw = Way::Raw.name();
    let ratio = |way: Way| sheet.ratio(setting, CYCLES, way.name(), raw, "aim: 0.9 or more");
    [Way::Fenced, Way::Efficiency].into_iter().filter_map(ratio).collect()
}

fn among_rivals(sheet: &Sheet, setting: &str) -> Vec<Aim> {
    let (mut aims, polling) = (Vec::new(), Way::Polling.name());
    for way in [Way::Fenced, Way::Efficiency, Way::Apart] {
        aims.extend(sheet.ratio(setting, CYCLES, way.name(), polling, "aim: 2 or more"));
        aims.extend(sheet.ratio(setting, P99_WAIT, way.name(), polling, "aim: 1 or less"));
        let share = sheet.values(setting, way.name(), SHARE).and_then(Spread::of);
        let aim = if is_fair(setting) { "aim: 0.9 or more" } else { "no aim: the backend keeps no order" };
        let what = format!("{}, {setting}: {SHARE}, {} ({aim})", sheet.part, way.name());
        aims.extend(share.map(|value| Aim { what, value }));
    }
    aims
}

/// Whether the backend of a setting is.
fn is_fair(setting: &str) -> bool {
    let label = setting.split(',').next();
    Backend::value_variants().iter().any(|backend| label == Some(backend.label()) && backend.is_fair())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_judged_by_the_two_commands_and_by_a_polling_loop() {
        let mut own = Part::Own.sheet();
        own.note("Redis, 1 client", Way::Raw.name(), vec![1000.0, 1.0, 2.0, 50.0]);
        own.note("Redis, 1 client", Way::Fenced.name(), vec![950.0, 1.0, 2.0, 50.0]);
        let mut one = Part::One.sheet();
        one.note("Redis, 16 clients", Way::Polling.name(), vec![100.0, 1.0, 40.0, 0.5, 50.0]);
        one.note("Redis, 16 clients", Way::Fenced.name(), vec![300.0, 1.0, 20.0, 0.9, 50.0]);
        one.note("etcd, 16 clients", Way::Apart.name(), vec![300.0, 1.0, 20.0, 0.95, 50.0]);
        let found: Vec<_> = of(&[own, one]).into_iter().map(|aim| (aim.what, aim.value.median)).collect();
        let expected = [
            ("own keys, Redis, 1 client: cycles/s, leastlock, fenced / two commands (aim: 0.9 or more)", 0.95),
            (
                "one key, Redis, 16 clients: cycles/s, leastlock, fenced / two commands, polled every ms (aim: 2 or more)",
                3.0,
            ),
            (
                "one key, Redis, 16 clients: p99 wait ms, leastlock, fenced / two commands, polled every ms (aim: 1 or less)",
                0.5,
            ),
            ("one key, Redis, 16 clients: min/max share, leastlock, fenced (no aim: the backend keeps no order)", 0.9),
            ("one key, etcd, 16 clients: min/max share, leastlock, fenced, processes apart (aim: 0.9 or more)", 0.95),
        ];
        assert_eq!(found, expected.map(|(what, value)| (what.to_owned(), value)));
    }
}

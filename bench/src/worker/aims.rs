//! The ratios that the project aims at.

use super::{Way, blocked, row, sleep};
use crate::report::Aim;
use crate::sheet::Sheet;
use crate::statistics::Spread;

/// Those that the run has measured both sides of.
pub(super) fn of(sheets: &[Sheet]) -> Vec<Aim> {
    let mut aims = Vec::new();
    for sheet in sheets {
        for setting in sheet.settings() {
            match sheet.part {
                sleep::PART => aims.extend(slept(sheet, setting)),
                sleep::POLL_PART => aims.extend(polled(sheet, setting)),
                row::PART => aims.extend(moved(sheet, setting)),
                blocked::PART => aims.extend(stood(sheet, setting)),
                _ => {}
            }
        }
    }
    aims
}

/// A figure of one contender that has an aim of its own.
fn figure(sheet: &Sheet, setting: &str, way: Way, figure: &str, aim: &str) -> Option<Aim> {
    let value = Spread::of(sheet.values(setting, way.name(), figure)?).filter(|spread| spread.median.is_finite())?;
    let aim = if aim.is_empty() { String::new() } else { format!(" (aim: {aim})") };
    Some(Aim { what: format!("{}, {setting}: {figure}, {}{aim}", sheet.part, way.name()), value })
}

fn slept(sheet: &Sheet, setting: &str) -> Vec<Aim> {
    let aims = [
        ("5 ms, keys: 1000, 1 partition, concurrency 100", "0.9 or more"),
        ("1 ms, keys: 1000, 1 partition, concurrency 100", "0.8 or more"),
        ("5 ms, keys: 1000, 1 partition, concurrency 1000", "0.75 or more"),
    ];
    let aim = aims.iter().find(|(of, _)| *of == setting).map_or("", |(_, aim)| aim);
    let peak = figure(sheet, setting, Way::Worker, sleep::PEAK, "150 or less");
    // Of all other settings the table tells.
    if aim.is_empty() {
        return peak.into_iter().filter(|peak| peak.value.median > 150.0).collect();
    }
    [figure(sheet, setting, Way::Worker, sleep::CEILING, aim), peak].into_iter().flatten().collect()
}

fn polled(sheet: &Sheet, setting: &str) -> Vec<Aim> {
    let aims = [
        sheet.ratio(setting, sleep::SPEED, Way::Worker.name(), Way::Poll.name(), "aim: 0.5 or more"),
        figure(sheet, setting, Way::Worker, sleep::CPU, "5 or less"),
        figure(sheet, setting, Way::Worker, sleep::PEAK, "150 or less"),
    ];
    aims.into_iter().flatten().collect()
}

fn moved(sheet: &Sheet, setting: &str) -> Vec<Aim> {
    let ratio = |of: Way, by: Way, aim| sheet.ratio(setting, sleep::SPEED, of.name(), by.name(), aim);
    let aims = [
        ratio(Way::Worker, Way::Loop, "aim: 0.95 or more"),
        ratio(Way::Record, Way::LoopTransaction, "aim: 0.55 or more"),
        ratio(Way::Batch, Way::Record, "aim: 5 or more"),
    ];
    aims.into_iter().flatten().collect()
}

fn stood(sheet: &Sheet, setting: &str) -> Option<Aim> {
    figure(sheet, setting, Way::Worker, blocked::RATIO, "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sheet: Sheet) -> Vec<(String, f64)> {
        of(&[sheet]).into_iter().map(|aim| (aim.what, aim.value.median)).collect()
    }

    #[test]
    fn a_sleep_is_judged_where_the_project_aims_and_memory_where_it_is_too_much() {
        let mut sheet = Sheet::new(sleep::PART, None, &[sleep::SPEED, sleep::CEILING, sleep::PEAK]);
        let aimed = "5 ms, keys: 1000, 1 partition, concurrency 100";
        sheet.note(aimed, Way::Worker.name(), vec![18_000.0, 0.9, 60.0]);
        sheet.note("5 ms, keys: 1, 1 partition, concurrency 100", Way::Worker.name(), vec![190.0, 0.95, 60.0]);
        sheet.note("0 ms, keys: 9, 8 partitions, concurrency 16", Way::Worker.name(), vec![1e6, f64::NAN, 200.0]);
        let expected = [
            (format!("sleep, {aimed}: of the ceiling, worker (aim: 0.9 or more)"), 0.9),
            (format!("sleep, {aimed}: peak MiB, worker (aim: 150 or less)"), 60.0),
            ("sleep, 0 ms, keys: 9, 8 partitions, concurrency 16: peak MiB, worker (aim: 150 or less)".into(), 200.0),
        ];
        assert_eq!(found(sheet), expected);
    }

    #[test]
    fn rows_are_judged_by_the_loop_that_does_the_same() {
        let mut sheet = Sheet::new(row::PART, None, &[sleep::SPEED]);
        let speeds =
            [(Way::Loop, 8.0), (Way::Worker, 6.0), (Way::LoopTransaction, 4.0), (Way::Record, 3.0), (Way::Batch, 24.0)];
        for (way, speed) in speeds {
            sheet.note("s", way.name(), vec![speed]);
        }
        let ratios: Vec<f64> = found(sheet).into_iter().map(|(_, ratio)| ratio).collect();
        assert_eq!(ratios, [0.75, 0.75, 8.0]);
    }
}

//! The ratios that the project aims at.

use super::{Way, drain, latency};
use crate::report::Aim;
use crate::sheet::Sheet;

/// Those that the run has measured both sides of.
pub(super) fn of(sheets: &[Sheet]) -> Vec<Aim> {
    let mut aims = Vec::new();
    for sheet in sheets {
        for setting in sheet.settings() {
            aims.extend(of_setting(sheet, setting));
        }
    }
    aims
}

fn of_setting(sheet: &Sheet, setting: &str) -> Vec<Aim> {
    let [by_loop, relay, woken, produce] = [Way::Loop, Way::Relay, Way::RelayWoken, Way::Produce].map(Way::name);
    let ratio = |figure, of, by, aim| sheet.ratio(setting, figure, of, by, aim);
    let aims = match sheet.part {
        drain::PART => vec![
            ratio(drain::SPEED, relay, by_loop, "aim: 1.5 or more"),
            ratio(drain::SPEED, relay, produce, "aim: 0.5 or more"),
            ratio(drain::OWN_CPU, relay, by_loop, "aim: 2 or less"),
        ],
        latency::PART => vec![
            ratio(latency::P50, relay, by_loop, "aim: 1.5 or less"),
            ratio(latency::P99, relay, by_loop, "aim: 2 or less"),
            ratio(latency::P50, woken, by_loop, ""),
            ratio(latency::P99, woken, by_loop, ""),
        ],
        _ => Vec::new(),
    };
    aims.into_iter().flatten().collect()
}

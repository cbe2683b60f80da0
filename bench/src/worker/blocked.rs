//! Some keys stand still: what becomes of the others.
//!
//! All keys run at first; then the next record of each blocked key stays in its handler, and what comes behind it waits. The
//! rate of the other keys before and meanwhile is compared.

use std::time::Duration;

use anyhow::Context;

use super::site::Site;
use super::sleep::PEAK;
use super::task::{Blocked, Task, Work};
use super::{Way, child};
use crate::options::WorkerOptions;
use crate::progress::Progress;
use crate::sheet::Sheet;

pub(super) const PART: &str = "blocked";
pub(super) const RATIO: &str = "meanwhile / before";
const FIGURES: [&str; 4] = [RATIO, "others/s before", "others/s meanwhile", PEAK];
const WAYS: [Way; 2] = [Way::Loop, Way::Worker];
const KEYS: u64 = 1000;
const BLOCKED: [u64; 2] = [1, 10];
const CONCURRENCY: usize = 100;
const SLEEP: Duration = Duration::from_millis(5);
/// Until the keys stand still.
const BEFORE: Duration = Duration::from_secs(4);
const AROUND: Duration = Duration::from_secs(2);

/// How many turns, and how long about.
pub(super) fn turns(options: &WorkerOptions) -> (u64, Duration) {
    let turns = u64::from(options.common.rounds) * (BLOCKED.len() * options.running(&WAYS).len()) as u64;
    let each = BEFORE + options.blocked + AROUND;
    (turns, each.saturating_mul(u32::try_from(turns).unwrap_or(u32::MAX)))
}

/// Measures the part.
pub(super) async fn measure(site: &Site, options: &WorkerOptions, progress: &Progress) -> anyhow::Result<Sheet> {
    let mut sheet = Sheet::new(PART, None, &FIGURES);
    let time = BEFORE + options.blocked;
    let topic = site.topic(enough(time), KEYS, 1).await?;
    for _ in 0..options.common.rounds {
        for keys in BLOCKED {
            let setting = format!("{keys} of {KEYS} for {:?}, {SLEEP:?}, concurrency {CONCURRENCY}", options.blocked);
            for way in options.running(&WAYS) {
                let blocked = Some(Blocked { keys, after: BEFORE, time: options.blocked });
                let work = Work::Sleep { records: u64::MAX, time, sleep: SLEEP, blocked };
                let task = Task { held: options.held, ..Task::new(way, &topic, CONCURRENCY, work) };
                let place = || format!("{PART}, {setting}, {}", way.name());
                let measured = child::measure(&task).await.with_context(place)?;
                let [before, during] = [measured.before, measured.during].map(|rate| rate.unwrap_or(f64::NAN));
                progress.turn_ended(&format!("{}: {before:.0}/s before, {during:.0}/s meanwhile", place()));
                sheet.note(&setting, way.name(), vec![during / before, before, during, measured.peak_mib]);
            }
        }
    }
    Ok(sheet)
}

/// As many records as can be handled in that time.
fn enough(time: Duration) -> u64 {
    let at_once = u32::try_from(CONCURRENCY).unwrap_or(u32::MAX);
    u64::try_from((time * at_once).as_millis() / SLEEP.as_millis()).unwrap_or(u64::MAX)
}

//! Some keys stand still: what becomes of the others.
//!
//! All keys run at first; then the next record of each blocked key stays in its handler, and what comes behind it waits. The
//! rate of the other keys before and meanwhile is compared.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::site::Site;
use super::sleep::PEAK;
use super::tally::Tally;
use super::task::{Blocked, Measured, Task, Work};
use super::topic::key_number;
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
/// Until the rate is that of the state, after the first record and after the keys stand still.
const SETTLING: Duration = Duration::from_secs(1);
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
    ensure!(options.blocked > SETTLING, "--blocked must be more than {SETTLING:?}, after which the rate is taken");
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
                let measured = child::measure(&task).with_context(place)?;
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

/// Lets keys stand still in a child, and counts the others.
#[derive(Debug)]
pub(super) struct Blocking {
    told: Blocked,
    tally: Arc<Tally>,
    others: AtomicU64,
    /// How many were done at the ends of the two windows.
    marks: Mutex<Vec<u64>>,
}

impl Blocking {
    pub(super) fn begin(told: Blocked, tally: &Arc<Tally>) -> Arc<Self> {
        let others = AtomicU64::new(0);
        let blocking = Arc::new(Self { told, tally: Arc::clone(tally), others, marks: Mutex::default() });
        tokio::spawn(Arc::clone(&blocking).watch());
        blocking
    }

    /// Does the work on a record of this key, after standing still if it has to.
    pub(super) async fn around(&self, key: &[u8], work: impl Future<Output = ()>) {
        if key_number(key).is_none_or(|key| key >= self.told.keys) {
            work.await;
            self.others.fetch_add(1, Relaxed);
            return;
        }
        let age = self.tally.age().unwrap_or_default();
        let end = self.told.after + self.told.time;
        if age >= self.told.after && age < end {
            tokio::time::sleep(end.saturating_sub(age)).await;
        }
        work.await;
    }

    /// The rates of the others, with what was measured besides.
    #[expect(clippy::cast_precision_loss, reason = "counts of records are far below 2^53")]
    pub(super) fn rates(&self, measured: Measured) -> Measured {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let rate = |window: usize, time: Duration| {
            let [from, to] = [2 * window, 2 * window + 1].map(|mark| marks.get(mark));
            Some((to? - from?) as f64 / time.saturating_sub(SETTLING).as_secs_f64())
        };
        Measured { before: rate(0, self.told.after), during: rate(1, self.told.time), ..measured }
    }

    async fn watch(self: Arc<Self>) {
        let Blocked { after, time, .. } = self.told;
        // Before all is over, when the process ends.
        let just_before = (after + time).saturating_sub(Duration::from_millis(20));
        for at in [SETTLING, after, after + SETTLING, just_before] {
            while self.tally.age().is_none_or(|age| age < at) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            self.marks.lock().unwrap_or_else(PoisonError::into_inner).push(self.others.load(Relaxed));
        }
    }
}

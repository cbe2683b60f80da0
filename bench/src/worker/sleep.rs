//! Handlers that sleep, or do nothing at all.
//!
//! The ceiling is the smaller of concurrency and keys, over the sleep: more cannot be had, however little is lost between two
//! handlers. Where handlers do nothing there is none, and polling alone is the base.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use leastlock_partition_worker::{Effect, Failure, Limits, Process, Record, Worker};

use super::blocked::Blocking;
use super::by_hand::{self, Dealt, Hand};
use super::site::Site;
use super::tally::Tally;
use super::task::{Measured, Task, Work};
use super::timer::Timer;
use super::{Way, child};
use crate::options::WorkerOptions;
use crate::progress::Progress;
use crate::sheet::Sheet;

pub(super) const PART: &str = "sleep";
pub(super) const POLL_PART: &str = "poll";
pub(super) const SPEED: &str = "records/s";
pub(super) const CEILING: &str = "of the ceiling";
pub(super) const CPU: &str = "CPU µs/record";
pub(super) const PEAK: &str = "peak MiB";
const FIGURES: [&str; 6] = [SPEED, CEILING, "p50 ms", "p99 ms", CPU, PEAK];
const WAYS: [Way; 2] = [Way::Loop, Way::Worker];
const POLL_WAYS: [Way; 2] = [Way::Poll, Way::Worker];
/// Of `poll`: as many as a middle-sized catalogue has items, and more tasks than cores.
const POLL_KEYS: u64 = 1000;
const POLL_CONCURRENCY: usize = 100;
/// To begin, to join the group, and to end.
const AROUND: Duration = Duration::from_millis(1_500);

/// What handlers have to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) sleep_ms: u64,
    pub(super) keys: u64,
    pub(super) partitions: i32,
    pub(super) concurrency: usize,
}

impl Setting {
    pub(super) fn name(self) -> String {
        let Self { sleep_ms, keys, partitions, concurrency } = self;
        let noun = if partitions == 1 { "partition" } else { "partitions" };
        format!("{sleep_ms} ms, keys: {keys}, {partitions} {noun}, concurrency {concurrency}")
    }

    /// Records a second; `None` where handlers do nothing.
    #[expect(clippy::cast_precision_loss, reason = "both are small")]
    fn ceiling(self) -> Option<f64> {
        let at_once = self.keys.min(self.concurrency as u64) as f64;
        (self.sleep_ms > 0).then(|| at_once * 1e3 / self.sleep_ms as f64)
    }
}

/// How many turns, and how long about.
pub(super) fn turns(options: &WorkerOptions) -> (u64, Duration) {
    counted(options, settings(options).len() * options.running(&WAYS).len())
}

pub(super) fn turns_of_poll(options: &WorkerOptions) -> (u64, Duration) {
    counted(options, poll_settings(options).len() * options.running(&POLL_WAYS).len())
}

fn counted(options: &WorkerOptions, a_round: usize) -> (u64, Duration) {
    let turns = u64::from(options.common.rounds) * a_round as u64;
    let each = options.common.seconds + AROUND;
    (turns, each.saturating_mul(u32::try_from(turns).unwrap_or(u32::MAX)))
}

fn settings(options: &WorkerOptions) -> Vec<Setting> {
    let mut settings = Vec::new();
    for &sleep_ms in &options.sleep_ms {
        for &partitions in &options.partitions {
            // Of fewer keys than partitions some partitions have none.
            for &keys in options.keys.iter().filter(|keys| **keys >= u64::from(partitions.unsigned_abs())) {
                for &concurrency in &options.concurrency {
                    settings.push(Setting { sleep_ms, keys, partitions, concurrency });
                }
            }
        }
    }
    settings
}

fn poll_settings(options: &WorkerOptions) -> Vec<Setting> {
    let of = |&partitions: &i32| Setting { sleep_ms: 0, keys: POLL_KEYS, partitions, concurrency: POLL_CONCURRENCY };
    options.partitions.iter().map(of).collect()
}

/// Measures `sleep`. A turn is a process of its own, so there is no warm-up.
pub(super) async fn measure(site: &Site, options: &WorkerOptions, progress: &Progress) -> anyhow::Result<Sheet> {
    let sheet = Sheet::new(PART, Some(Way::Loop.name()), &FIGURES);
    fill(sheet, site, options, progress, (settings(options), &WAYS)).await
}

/// Measures `poll`.
pub(super) async fn measure_poll(site: &Site, options: &WorkerOptions, progress: &Progress) -> anyhow::Result<Sheet> {
    let sheet = Sheet::new(POLL_PART, Some(Way::Poll.name()), &FIGURES);
    fill(sheet, site, options, progress, (poll_settings(options), &POLL_WAYS)).await
}

async fn fill(
    mut sheet: Sheet,
    site: &Site,
    options: &WorkerOptions,
    progress: &Progress,
    (settings, ways): (Vec<Setting>, &[Way]),
) -> anyhow::Result<Sheet> {
    for _ in 0..options.common.rounds {
        for &setting in &settings {
            let topic = site.topic(options.records, setting.keys, setting.partitions).await?;
            for way in options.running(ways) {
                let sleep = Duration::from_millis(setting.sleep_ms);
                let (records, time) = (options.records, options.common.seconds);
                let work = Work::Sleep { records, time, sleep, blocked: None };
                let task = Task { held: options.held, ..Task::new(way, &topic, setting.concurrency, work) };
                let place = || format!("{}, {}, {}", sheet.part, setting.name(), way.name());
                let measured = child::measure(&task).with_context(place)?;
                progress.turn_ended(&format!("{}: {}", place(), told(&measured)));
                sheet.note(&setting.name(), way.name(), figures(setting, &measured));
            }
        }
    }
    Ok(sheet)
}

fn told(measured: &Measured) -> String {
    let (speed, cpu, peak) = (measured.per_second(), measured.cpu_us(), measured.peak_mib);
    format!("{speed:.0} records/s, {cpu:.2} µs/record, {peak:.0} MiB")
}

fn figures(setting: Setting, measured: &Measured) -> Vec<f64> {
    let ms = |us: Option<f64>| us.map_or(f64::NAN, |us| us / 1e3);
    let speed = measured.per_second();
    let ratio = setting.ceiling().map_or(f64::NAN, |ceiling| speed / ceiling);
    vec![speed, ratio, ms(measured.p50_us), ms(measured.p99_us), measured.cpu_us(), measured.peak_mib]
}

/// The child's part, of `blocked` as well.
pub(super) async fn in_child(task: &Task) -> anyhow::Result<Measured> {
    let Work::Sleep { records, time, sleep, blocked } = &task.work else { anyhow::bail!("another task") };
    let tally = Arc::new(Tally::of(*records));
    let (timer, blocking) = (Timer::of(*sleep), blocked.map(|blocked| Blocking::begin(blocked, &tally)));
    let sleeper = Sleeper { timer, blocking: blocking.clone() };
    let measured = match task.way {
        Way::Poll => by_hand::poll(task, tally, *time).await?,
        Way::Loop | Way::LoopTransaction => by_hand::deal(task, vec![sleeper; task.concurrency], tally, *time).await?,
        Way::Worker => {
            let mut worker = Worker::builder(child::kafka(task)).topic(&task.topic).effect(Effect::at_least_once());
            if let Some(records_per_partition) = task.held {
                worker = worker.limits(Limits { records_per_partition, ..Limits::default() });
            }
            let worker = worker.concurrency(task.concurrency).build()?;
            let handler = Sleeping { tally: Arc::clone(&tally), sleeper };
            child::until_measured(&tally, *time, |shutdown| worker.run(handler, shutdown)).await?
        }
        Way::Record | Way::Batch => anyhow::bail!("{} has a row to update", task.way.name()),
    };
    Ok(match blocking {
        Some(blocking) => blocking.rates(measured),
        None => measured,
    })
}

/// What is done with a record: nothing, for a while.
#[derive(Clone)]
struct Sleeper {
    timer: Timer,
    blocking: Option<Arc<Blocking>>,
}

impl Sleeper {
    async fn sleep(&self, key: &[u8]) {
        match &self.blocking {
            Some(blocking) => blocking.around(key, self.timer.sleep()).await,
            None => self.timer.sleep().await,
        }
    }
}

impl Hand for Sleeper {
    async fn take(&mut self, record: &Dealt) -> anyhow::Result<()> {
        self.sleep(&record.key).await;
        Ok(())
    }
}

/// The worker's handler.
struct Sleeping {
    tally: Arc<Tally>,
    sleeper: Sleeper,
}

impl Process for Sleeping {
    async fn process(&self, record: &Record) -> Result<(), Failure> {
        self.tally.came();
        self.sleeper.sleep(record.key().unwrap_or_default()).await;
        self.tally.done(record.polled_at());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_what_the_scarcer_of_keys_and_handlers_allows() {
        let of = |sleep_ms, keys, concurrency| Setting { sleep_ms, keys, partitions: 1, concurrency }.ceiling();
        assert_eq!(of(5, 1000, 100), Some(20_000.0));
        assert_eq!(of(5, 1, 100), Some(200.0));
        assert_eq!(of(1, 100, 1000), Some(100_000.0));
        assert_eq!(of(0, 1000, 100), None);
    }
}

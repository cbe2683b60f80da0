//! Three workers on a real broker and PostgreSQL, killed, stopped beyond their session and rebalanced at random under a
//! steady stream of records, until the time is over; then whether every record took effect exactly once, each account's in order,
//! and nothing of a worker that had been fenced.

mod chaos;
mod member;
mod stream;
mod verdict;

use std::time::{Duration, Instant};

use anyhow::ensure;
use tokio_util::sync::CancellationToken;

pub(super) use self::member::run as in_child;

use self::chaos::{Chaos, Faults};
use self::stream::Stream;
use self::verdict::Verdict;
use super::Way;
use super::site::Site;
use super::task::{Protocol, Task, Work};
use super::topic::{Records, Topic};
use crate::options::WorkerOptions;
use crate::progress::Progress;
use crate::sheet::Sheet;

const PART: &str = "soak";
const FIGURES: [&str; 11] = [
    "seconds",
    "records",
    "kills",
    "stops beyond the session",
    "short stops",
    "rebalances",
    "lost",
    "doubled",
    "inverted",
    "fenced and applied",
    "longest silence s",
];
const ACCOUNTS: u64 = 200;
const PARTITIONS: i32 = 8;
const CONCURRENCY: usize = 8;
/// Once everything is up again, all has to be applied within so long.
const LIMIT: Duration = Duration::from_mins(3);
const STATUS: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// How many turns, and how long about.
pub(super) fn turns(options: &WorkerOptions) -> (u64, Duration) {
    let ways = ways(options).len();
    let time = options.minutes + Duration::from_secs(20);
    (ways as u64, time.saturating_mul(u32::try_from(ways).unwrap_or(u32::MAX)))
}

/// Those that are named, in turn; if none is, both modes that promise an effect exactly once. Without a fence one runs only if it is named.
fn ways(options: &WorkerOptions) -> Vec<Way> {
    let all: &[Way] = if options.contenders.is_empty() {
        &[Way::Record, Way::Batch]
    } else {
        &[Way::Record, Way::Batch, Way::Worker]
    };
    options.running(all)
}

/// After so long without a word a member is taken for dead. The broker decides it in its own protocol, in 45 s unless it was
/// set up otherwise.
const fn session(protocol: Protocol) -> Duration {
    match protocol {
        Protocol::Eager | Protocol::Cooperative => Duration::from_secs(6),
        Protocol::Consumer => Duration::from_secs(45),
    }
}

/// Runs the part, for the time it is given once for each way; an error if a record was lost or doubled, came out of order, or took effect
/// behind a fence.
pub(super) async fn measure(site: &Site, options: &WorkerOptions, progress: &Progress) -> anyhow::Result<Sheet> {
    let mut sheet = Sheet::new(PART, None, &FIGURES);
    let setting = format!("{} records/s, 3 workers", options.rate);
    for way in ways(options) {
        let figures = turn(site, options, way, progress).await?;
        sheet.note(&setting, way.name(), figures);
    }
    Ok(sheet)
}

async fn turn(site: &Site, options: &WorkerOptions, way: Way, progress: &Progress) -> anyhow::Result<Vec<f64>> {
    let broker = site.real()?;
    let empty = Records { count: 0, keys: 1, partitions: PARTITIONS, bytes: 0, seed: options.common.seed };
    let topic = Topic::fill(broker, empty).await?;
    stream::prepare(&site.database.pool, ACCOUNTS).await?;
    let session = session(options.protocol);
    let work = Work::Soak { url: site.database.url.clone(), process: 0, session, protocol: options.protocol };
    let task = Task::new(way, &topic, CONCURRENCY, work);

    let started = Instant::now();
    let stop = CancellationToken::new();
    let stream = Stream::to(&topic, options.rate, options.common.seed)?;
    let streaming = tokio::spawn(stream.run(stop.clone()));
    let mut chaos = Chaos::begin(task, session, options.common.seed)?;
    let mut watch = Watch::new();
    while started.elapsed() < options.minutes {
        tokio::task::block_in_place(|| chaos.step())?;
        watch.look(site, &chaos.faults).await;
        tokio::time::sleep(LOOK).await;
    }
    stop.cancel();
    let produced = streaming.await??;
    tokio::task::block_in_place(|| chaos.all_up())?;
    let records = produced.iter().sum::<u64>();
    let deadline = Instant::now() + LIMIT;
    while watch.look(site, &chaos.faults).await < records && Instant::now() < deadline {
        tokio::time::sleep(LOOK).await;
    }
    let faults = tokio::task::block_in_place(|| chaos.end())?;
    let seconds = started.elapsed().as_secs_f64();
    let verdict = Verdict::of(&verdict::effects(&site.database.pool).await?, &produced);
    let name = way.name();
    progress.turn_ended(&format!("{PART}, {name}: {records} records, {verdict}; {faults}"));
    let seed = options.common.seed;
    ensure!(verdict.is_clean(), "of {records} records: {verdict}; {faults}; {name}, seed {seed}");
    Ok(figures(seconds, records, faults, verdict, watch.silence))
}

#[expect(clippy::cast_precision_loss, reason = "counts of records are far below 2^53")]
fn figures(seconds: f64, records: u64, faults: Faults, verdict: Verdict, silence: Duration) -> Vec<f64> {
    let Faults { kills, long_stops, short_stops, rebalances } = faults;
    let Verdict { lost, doubled, inverted, fenced } = verdict;
    let counts = [records, kills, long_stops, short_stops, rebalances, lost, doubled, inverted, fenced];
    [&[seconds][..], &counts.map(|count| count as f64), &[silence.as_secs_f64()]].concat()
}

/// What has been applied meanwhile.
struct Watch {
    applied: u64,
    last: Instant,
    silence: Duration,
    status: Instant,
}

impl Watch {
    fn new() -> Self {
        Self { applied: 0, last: Instant::now(), silence: Duration::ZERO, status: Instant::now() }
    }

    async fn look(&mut self, site: &Site, faults: &Faults) -> u64 {
        let applied =
            site.database.int("SELECT coalesce(sum(last), 0)::bigint FROM soak_account").await.cast_unsigned();
        if applied > self.applied {
            self.applied = applied;
            self.last = Instant::now();
        }
        self.silence = self.silence.max(self.last.elapsed());
        if self.status.elapsed() >= STATUS {
            self.status = Instant::now();
            eprintln!("{PART}: {applied} records applied; {faults}");
        }
        applied
    }
}

//! What kill -9 in the middle of a drain leaves, and when it goes on.
//!
//! The contender runs in a process of its own. When a part of the events has arrived it is killed, and another is started at
//! once, which has to wait for the lease of the dead one. The time until it goes on is read off the consumer's clock: the end
//! of the longest time after the kill in which no event came for the first time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::child::{self, ChildOptions};
use super::events::{Arrivals, Events};
use super::site::Site;
use super::topic::Topic;
use super::{OutboxEngine, Way};
use crate::options::OutboxOptions;
use crate::progress::Progress;
use crate::sheet::Sheet;

pub(super) const PART: &str = "crash";
pub(super) const BEYOND: &str = "beyond the lease s";
pub(super) const DOUBLED: &str = "duplicates";
pub(super) const LOST: &str = "lost";
pub(super) const INVERTED: &str = "inverted";
const FIGURES: [&str; 6] = ["progress again after s", BEYOND, DOUBLED, LOST, INVERTED, "arrived at the kill"];

const WAYS: [Way; 2] = [Way::Loop, Way::Relay];
const BYTES: usize = 200;
const KEYS: u64 = 1000;
/// Killed when so many hundredths have arrived.
const KILLED_AT: u64 = 40;
/// Beyond the lease.
const LIMIT: Duration = Duration::from_mins(5);

/// How many turns, and how long about.
pub(super) fn turns(options: &OutboxOptions) -> (u64, Duration) {
    let rounds = u64::from(options.common.rounds);
    let a_round = options.lease + Duration::from_secs(20);
    (rounds * options.running(&WAYS).len() as u64, a_round.saturating_mul(options.common.rounds))
}

/// Measures the part. It has no warm-up: nothing is measured that one would change.
pub(super) async fn measure<DB: OutboxEngine>(
    site: &Site<DB>,
    options: &OutboxOptions,
    progress: &Progress,
) -> anyhow::Result<Sheet> {
    let mut sheet = Sheet::new(PART, None, &FIGURES);
    let count = options.events.first().copied().unwrap_or_default();
    for round in 1..=options.common.rounds {
        let seed = options.common.seed ^ (u64::from(round) << 40);
        let events = Events { count, bytes: BYTES, keys: KEYS, seed };
        for way in options.running(&WAYS) {
            let setting = match way {
                Way::Loop => format!("{count} events of {BYTES} B, killed at {KILLED_AT} %, no lease"),
                _ => format!("{count} events of {BYTES} B, killed at {KILLED_AT} %, lease {:?}", options.lease),
            };
            let place = || format!("{PART}, {setting}, {}", way.name());
            let figures = turn(site, options, events, way).await.with_context(place)?;
            progress.turn_ended(&format!("{}: {:.1} s, {} duplicates", place(), figures[0], figures[2]));
            sheet.note(&setting, way.name(), figures);
        }
    }
    Ok(sheet)
}

/// What the consumer has seen.
struct Watch {
    arrivals: Arrivals,
    last: Instant,
    killed: Option<Instant>,
    /// The longest time without a first occurrence after the kill, and when it ended.
    silence: (Duration, Option<Instant>),
}

impl Watch {
    fn came(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        if self.arrivals.count(key, value).is_none() {
            return;
        }
        let now = Instant::now();
        if self.killed.is_some() && now - self.last > self.silence.0 {
            self.silence = (now - self.last, Some(now));
        }
        self.last = now;
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of events are far below 2^53")]
async fn turn<DB: OutboxEngine>(
    site: &Site<DB>,
    options: &OutboxOptions,
    events: Events,
    way: Way,
) -> anyhow::Result<Vec<f64>> {
    let topic = Topic::create(&site.brokers).await;
    site.empty().await;
    match way {
        Way::Loop => site.fill_table(&topic.name, events).await?,
        _ => site.fill_log(&topic.name, events).await?,
    }
    let watch = Watch {
        arrivals: Arrivals::of(events.count),
        last: Instant::now(),
        killed: None,
        silence: (Duration::ZERO, None),
    };
    let watch = Arc::new(Mutex::new(watch));
    let seen = Arc::clone(&watch);
    let follower = topic.follow(move |record| {
        use rdkafka::message::Message;
        seen.lock().unwrap_or_else(PoisonError::into_inner).came(record.key(), record.payload());
    })?;
    let look = || watch.lock().unwrap_or_else(PoisonError::into_inner);

    let child = ChildOptions::new(way, &site.database.url, topic.brokers(), options, options.lease);
    let mut first = child.start()?;
    come(&look, events.count * KILLED_AT / 100).await.context("before the kill")?;
    // The consumer is kept out until the process is gone.
    let at_kill = {
        let mut watch = look();
        first.kill();
        watch.killed = Some(Instant::now());
        watch.arrivals.distinct
    };
    let mut second = child.start()?;
    come(&look, events.count).await.context("after the kill")?;
    tokio::task::block_in_place(|| child::end(&mut second))?;
    follower.stop().await?;
    let found = topic.read(events.count).await?;
    ensure!(found.strange == 0, "wrong results: {found}");
    let watch = look();
    let resumed = watch.silence.1.zip(watch.killed).map_or(f64::NAN, |(end, killed)| (end - killed).as_secs_f64());
    let lost = events.count - found.distinct;
    let counts = [found.doubled, lost, found.inverted, at_kill].map(|count| count as f64);
    // The loop has none: whoever starts it takes care that it runs once.
    let lease = if way == Way::Loop { Duration::ZERO } else { options.lease };
    Ok([&[resumed, resumed - lease.as_secs_f64()][..], &counts].concat())
}

/// Waits until so many events have come.
async fn come<'a>(look: &impl Fn() -> std::sync::MutexGuard<'a, Watch>, events: u64) -> anyhow::Result<()> {
    let deadline = Instant::now() + LIMIT;
    while look().arrivals.distinct < events {
        ensure!(Instant::now() < deadline, "only {} within {LIMIT:?}", look().arrivals);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

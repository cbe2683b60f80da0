//! Four relays and a broker, killed, stopped and restarted at random under writers, until the time is over; then whether
//! everything arrived, each key in the order of its commits.

mod chaos;
mod writers;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use leastlock_outbox::sink::EVENT_ID_HEADER;
use rdkafka::message::{Headers, Message};
use tokio_util::sync::CancellationToken;

use self::chaos::{Chaos, Faults};
use super::OutboxEngine;
use super::broker::OwnBroker;
use super::events::{Arrivals, number_of};
use super::site::Site;
use super::topic::Topic;
use crate::options::OutboxOptions;
use crate::progress::Progress;
use crate::sheet::Sheet;

const PART: &str = "soak";
const FIGURES: [&str; 10] = [
    "seconds",
    "events",
    "kills",
    "stops",
    "broker restarts",
    "broker kills",
    "duplicates",
    "lost",
    "inverted",
    "longest silence s",
];
/// Once everything is up again, all has to arrive within so long.
const LIMIT: Duration = Duration::from_mins(5);
const STATUS: Duration = Duration::from_secs(10);

/// How many turns, and how long about.
pub(super) fn turns(options: &OutboxOptions) -> (u64, Duration) {
    (1, options.minutes + Duration::from_secs(30))
}

/// Runs the part; an error if anything was lost or turned round.
pub(super) async fn measure<DB: OutboxEngine>(
    site: &Site<DB>,
    options: &OutboxOptions,
    progress: &Progress,
) -> anyhow::Result<Sheet> {
    let broker = tokio::task::block_in_place(OwnBroker::start)?;
    eprintln!("{PART}: a broker of its own at {}", broker.address);
    site.empty().await;
    writers::prepare(site).await;
    let topic = Topic::create(&broker.address).await;
    let watch = Arc::new(Mutex::new(Watch::new()));
    let seen = Arc::clone(&watch);
    let follower = topic.follow(move |record| {
        seen.lock().unwrap_or_else(PoisonError::into_inner).came(record.key(), record.payload());
    })?;
    let look = || watch.lock().unwrap_or_else(PoisonError::into_inner);

    let started = Instant::now();
    let stop = CancellationToken::new();
    let writing = writers::start(site, &topic.name, options, &stop);
    let mut chaos = Chaos::begin(&site.database.url, &broker, options)?;
    let mut status = Instant::now();
    while started.elapsed() < options.minutes {
        tokio::task::block_in_place(|| chaos.step())?;
        if status.elapsed() >= STATUS {
            status = Instant::now();
            eprintln!("{PART}: {:.0} s, {}; {}", started.elapsed().as_secs_f64(), look().arrivals, chaos.faults);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.cancel();
    writing.await.context("a writer panicked")??;
    tokio::task::block_in_place(|| chaos.all_up())?;
    let seconds = started.elapsed().as_secs_f64();
    let committed = u64::try_from(site.database.int(writers::committed::<DB>()).await)?;
    let deadline = Instant::now() + LIMIT;
    while look().arrivals.distinct < committed && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let faults = tokio::task::block_in_place(|| chaos.end())?;
    follower.stop().await?;
    let silence = look().silence;
    let found = verdict(&topic).await?;
    let lost = committed.saturating_sub(found.distinct);
    progress.turn_ended(&format!("{PART}: {committed} events committed, {found}; {faults}"));
    let line = figures(seconds, committed, faults, &found, silence);
    ensure!(
        (lost, found.inverted, found.strange) == (0, 0, 0),
        "{committed} events were committed, {found}; seed {}",
        options.common.seed
    );
    let mut sheet = Sheet::new(PART, None, &FIGURES);
    sheet.note(&format!("{} tx/s, 4 relays", options.rate), "relay", line);
    Ok(sheet)
}

#[expect(clippy::cast_precision_loss, reason = "counts of events are far below 2^53")]
fn figures(seconds: f64, committed: u64, faults: Faults, found: &Arrivals, silence: Duration) -> Vec<f64> {
    let Faults { kills, stops, broker_restarts, broker_kills } = faults;
    let lost = committed.saturating_sub(found.distinct);
    let counts = [committed, kills, stops, broker_restarts, broker_kills, found.doubled, lost, found.inverted];
    let counts = counts.map(|count| count as f64);
    [&[seconds][..], &counts, &[silence.as_secs_f64()]].concat()
}

/// The topic as it stands, read from its beginning: a repeat must bear the id of the first.
async fn verdict(topic: &Topic) -> anyhow::Result<Arrivals> {
    let verdict = Arc::new(Mutex::new((Arrivals::of(writers::NUMBERS), HashMap::<u64, Vec<u8>>::new())));
    let each = Arc::clone(&verdict);
    topic
        .read_each(move |record| {
            let mut verdict = each.lock().unwrap_or_else(PoisonError::into_inner);
            let (arrivals, ids) = &mut *verdict;
            arrivals.count(record.key(), record.payload());
            let id = record.headers().into_iter().flat_map(Headers::iter).find(|header| header.key == EVENT_ID_HEADER);
            let (Some(id), Some(number)) = (id.and_then(|id| id.value), record.payload().and_then(number_of)) else {
                arrivals.strange += 1;
                return;
            };
            if ids.entry(number).or_insert_with(|| id.to_vec()) != id {
                arrivals.strange += 1;
            }
        })
        .await?;
    let (arrivals, _) = Arc::into_inner(verdict).context("the reader has ended")?.into_inner()?;
    Ok(arrivals)
}

/// What the consumer sees meanwhile.
struct Watch {
    arrivals: Arrivals,
    last: Instant,
    silence: Duration,
}

impl Watch {
    fn new() -> Self {
        Self { arrivals: Arrivals::of(writers::NUMBERS), last: Instant::now(), silence: Duration::ZERO }
    }

    fn came(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        if self.arrivals.count(key, value).is_some() {
            self.silence = self.silence.max(self.last.elapsed());
            self.last = Instant::now();
        }
    }
}

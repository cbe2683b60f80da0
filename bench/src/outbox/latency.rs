//! From commit to consumer, at a rate.
//!
//! Writers commit one event a transaction at moments that are fixed before, whatever the answers take (an open loop), and a
//! consumer in this process notes when each arrives. The time of an event begins just before its COMMIT is sent, so that it
//! contains the commit itself, and ends when the consumer has it. The loop polls as the relay does.

mod writers;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use leastlock_core::Engine;
use leastlock_testkit::TestDatabase;
use rdkafka::message::Message;
use sqlx::Pool;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::writers::{Pace, Writers};
use super::events::{Arrivals, number_of};
use super::producer::Plain;
use super::site::{Settings, Site, connection};
use super::topic::Topic;
use super::{OutboxEngine, Way, by_hand};
use crate::options::OutboxOptions;
use crate::progress::Progress;
use crate::sheet::Sheet;
use crate::statistics::per_mille;

pub(super) const PART: &str = "commit to consumer";
pub(super) const P50: &str = "p50 ms";
pub(super) const P99: &str = "p99 ms";
const P999: &str = "p99.9 ms";
const STEADY_PART: &str = "highest steady rate";

const WAYS: [Way; 3] = [Way::Loop, Way::Relay, Way::RelayWoken];
/// Before anything counts.
const WARM: Duration = Duration::from_secs(1);
/// After the last commit everything has to arrive within so long.
const LIMIT: Duration = Duration::from_mins(1);

/// Rates are tried from here on, each so many times the last, for so long each.
const FIRST_RATE: f64 = 1000.0;
const RATE_STEP: f64 = 1.25;
const TRIAL: Duration = Duration::from_secs(2);
/// A rate is steady if the writers end in time and the consumer has everything so long after them.
const BEHIND: Duration = Duration::from_millis(300);

/// What else goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Condition {
    Alone,
    OpenHere,
    OpenElsewhere,
}

impl Condition {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::OpenHere => "open transaction here",
            Self::OpenElsewhere => "open transaction elsewhere",
        }
    }

    /// With one writer at a time an open transaction lets nobody commit.
    fn on<DB: OutboxEngine>() -> &'static [Self] {
        if DB::ENGINE == Engine::Sqlite { &[Self::Alone] } else { Self::value_variants() }
    }
}

/// The setting of a rate and a condition.
pub(super) fn setting(rate: f64, condition: Condition) -> String {
    format!("{rate:.0} tx/s, {}", condition.name())
}

/// How many turns, and how long about.
pub(super) fn turns<DB: OutboxEngine>(options: &OutboxOptions) -> (u64, Duration) {
    let rates = if options.searches_rate() { 2 } else { 1 };
    let a_round = options.running(&WAYS).len() * Condition::on::<DB>().len() * rates;
    let turns = u32::try_from(a_round).unwrap_or(u32::MAX).saturating_mul(options.common.rounds);
    let search = if options.searches_rate() { Duration::from_mins(1) } else { Duration::ZERO };
    (u64::from(turns), (options.common.seconds + WARM + WARM).saturating_mul(turns) + search)
}

/// Measures the part.
pub(super) async fn measure<DB: OutboxEngine>(
    site: &Site<DB>,
    options: &OutboxOptions,
    progress: &Progress,
) -> anyhow::Result<Vec<Sheet>> {
    let bytes = options.bytes.first().copied().unwrap_or_default();
    let mut sheets = vec![Sheet::new(PART, Some(Way::Loop.name()), &[P50, P99, P999])];
    let mut rates = vec![f64::from(options.rate)];
    if options.searches_rate() {
        let mut steady = Sheet::new(STEADY_PART, Some(Way::Loop.name()), &["tx/s"]);
        let mut lowest = f64::INFINITY;
        for way in options.running(&[Way::Loop, Way::Relay]) {
            let rate = highest_rate(site, bytes, Settings::of(options), way).await?;
            eprintln!("{STEADY_PART}, {}: {rate:.0} tx/s", way.name());
            steady.note("one event a transaction", way.name(), vec![rate]);
            lowest = lowest.min(rate);
        }
        sheets.push(steady);
        rates.push(lowest);
    }
    for _ in 0..options.common.rounds {
        for &rate in &rates {
            for &condition in Condition::on::<DB>() {
                let setting = setting(rate, condition);
                for way in options.running(&WAYS) {
                    let pace = Pace { rate, warm: WARM, counted: options.common.seconds };
                    let turn = Turn { site, pace, bytes, settings: Settings::of(options), way, condition };
                    let what = format!("{PART}, {setting}, {}", way.name());
                    let mut done = turn.run().await.with_context(|| what.clone())?;
                    let figures = done.figures()?;
                    progress.turn_ended(&format!("{}: p50 {:.1} ms, p99 {:.1} ms", what, figures[0], figures[1]));
                    sheets[0].note(&setting, way.name(), figures);
                }
            }
        }
    }
    Ok(sheets)
}

/// The highest of the rates tried at which nobody falls behind.
async fn highest_rate<DB: OutboxEngine>(
    site: &Site<DB>,
    bytes: usize,
    settings: Settings,
    way: Way,
) -> anyhow::Result<f64> {
    let (mut rate, mut steady) = (FIRST_RATE, FIRST_RATE / RATE_STEP);
    loop {
        let pace = Pace { rate, warm: WARM, counted: TRIAL };
        let done = Turn { site, pace, bytes, settings, way, condition: Condition::Alone }.run().await?;
        if !done.is_steady {
            return Ok(steady);
        }
        (steady, rate) = (rate, rate * RATE_STEP);
    }
}

/// A contender at a rate.
struct Turn<'a, DB: OutboxEngine> {
    site: &'a Site<DB>,
    pace: Pace,
    bytes: usize,
    settings: Settings,
    way: Way,
    condition: Condition,
}

/// What came of a turn.
struct Done {
    latencies_ns: Vec<u64>,
    is_steady: bool,
}

impl Done {
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a turn are far below 2^53")]
    fn figures(&mut self) -> anyhow::Result<Vec<f64>> {
        self.latencies_ns.sort_unstable();
        let ms = |mille| per_mille(&self.latencies_ns, mille).map(|ns| ns as f64 / 1e6).context("nothing arrived");
        Ok(vec![ms(500)?, ms(990)?, ms(999)?])
    }
}

/// When each event arrived, since the beginning.
struct Received {
    arrivals: Arrivals,
    at: Vec<(u64, Instant)>,
}

impl<DB: OutboxEngine> Turn<'_, DB> {
    async fn run(&self) -> anyhow::Result<Done> {
        let topic = Topic::create(&self.site.brokers).await;
        self.site.empty().await;
        let elsewhere = match self.condition {
            Condition::OpenElsewhere => Some(TestDatabase::<DB>::create().await),
            _ => None,
        };
        let open = match (self.condition, &elsewhere) {
            (Condition::Alone, _) => None,
            (_, Some(other)) => Some(writers::open_transaction(other).await?),
            _ => Some(writers::open_transaction(&self.site.database).await?),
        };
        let done = self.beside(&topic).await;
        if let Some(open) = open {
            open.rollback().await?;
        }
        done
    }

    async fn beside(&self, topic: &Topic) -> anyhow::Result<Done> {
        let events = self.pace.events();
        let received = Arc::new(Mutex::new(Received { arrivals: Arrivals::of(events), at: Vec::new() }));
        let noted = Arc::clone(&received);
        let follower = topic.follow(move |record| {
            let now = Instant::now();
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            noted.arrivals.count(record.key(), record.payload());
            noted.at.extend(record.payload().and_then(number_of).map(|number| (number, now)));
        })?;
        let shutdown = CancellationToken::new();
        let pool = self.site.relay_pool().await?;
        let publishing = self.publish(&pool, topic, &shutdown)?;
        let writers = Writers { way: self.way, pace: self.pace, topic: topic.name.clone(), bytes: self.bytes };
        let written = writers.write(self.site).await?;
        let all = async {
            while received.lock().unwrap_or_else(PoisonError::into_inner).arrivals.distinct < events {
                ensure!(!publishing.is_finished(), "the publisher ended early");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok(())
        };
        tokio::time::timeout(LIMIT, all).await.context("not everything arrives")??;
        let behind = written.ended.elapsed();
        shutdown.cancel();
        publishing.await.context("the publisher panicked")??;
        follower.stop().await?;
        let received = received.lock().unwrap_or_else(PoisonError::into_inner);
        let found = &received.arrivals;
        ensure!((found.distinct, found.inverted, found.strange) == (events, 0, 0), "wrong results: {found}");
        let is_steady = written.in_time && behind <= BEHIND;
        Ok(Done { latencies_ns: written.latencies_ns(&received.at, self.pace.first_counted()), is_steady })
    }

    fn publish(
        &self,
        pool: &Pool<DB>,
        topic: &Topic,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<JoinHandle<anyhow::Result<()>>> {
        let (pool, shutdown) = (pool.clone(), shutdown.clone());
        if self.way == Way::Loop {
            let mut producer = Plain::to(topic.brokers())?;
            return Ok(tokio::spawn(async move {
                let mut connection = connection(&pool).await?;
                by_hand::run::<DB>(&mut connection, &mut producer, by_hand::BATCH, u64::MAX, &shutdown).await?;
                Ok(())
            }));
        }
        let mut relay = self.settings.relay(&pool, topic.brokers())?;
        if self.way == Way::RelayWoken {
            relay = relay.woken_by(self.site.outbox.wake());
        }
        let relay = relay.build()?;
        Ok(tokio::spawn(async move {
            relay.run(shutdown).await?;
            Ok(())
        }))
    }
}

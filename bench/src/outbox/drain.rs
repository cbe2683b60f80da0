//! A backlog, as fast as it goes.
//!
//! Every contender gets a topic of its own. What it published is read back after its time is taken: all events, each key in its
//! order. Processor time is this whole process's, in which nothing else runs meanwhile, and the database server's.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::events::Events;
use super::producer::Plain;
use super::site::{Settings, Site, connection};
use super::topic::Topic;
use super::{OutboxEngine, Way, by_hand};
use crate::cpu::own_seconds;
use crate::options::OutboxOptions;
use crate::progress::Progress;
use crate::sheet::Sheet;

pub(super) const PART: &str = "drain";
pub(super) const SPEED: &str = "events/s";
pub(super) const OWN_CPU: &str = "own CPU s/100k";
const SERVER_CPU: &str = "server CPU s/100k";

const WAYS: [Way; 3] = [Way::Loop, Way::Relay, Way::Produce];
/// As many as a middle-sized catalogue has items.
const KEYS: u64 = 1000;
/// A drain that has not ended after so long never will.
const LIMIT: Duration = Duration::from_mins(20);
/// Guessed: events that are filled in, published and read back in a second.
const EVENTS_A_SECOND: u64 = 15_000;

/// How many turns, and how long about.
pub(super) fn turns(options: &OutboxOptions) -> (u64, Duration) {
    let a_round = (options.running(&WAYS).len() * options.bytes.len()) as u64;
    let events: u64 = options.events.iter().sum();
    let rounds = u64::from(options.common.rounds + 1);
    (a_round * options.events.len() as u64 * rounds, Duration::from_secs(a_round * events * rounds / EVENTS_A_SECOND))
}

/// Measures the part: all contenders in turn, in each setting in turn, round by round; the first round does not count.
pub(super) async fn measure<DB: OutboxEngine>(
    site: &Site<DB>,
    options: &OutboxOptions,
    progress: &Progress,
) -> anyhow::Result<Sheet> {
    let mut sheet = Sheet::new(PART, Some(Way::Loop.name()), &[SPEED, OWN_CPU, SERVER_CPU]);
    for round in 0..=options.common.rounds {
        for &count in &options.events {
            for &bytes in &options.bytes {
                let events = Events { count, bytes, keys: KEYS, seed: options.common.seed ^ (u64::from(round) << 40) };
                let setting = format!("{count} events of {bytes} B");
                for way in options.running(&WAYS) {
                    let turn = Turn { site, events, batch: options.batch, settings: Settings::of(options), way };
                    let place = || format!("{PART}, {setting}, {}", way.name());
                    let figures = turn.run().await.with_context(place)?;
                    progress.turn_ended(&format!("{}: {:.0} events/s", place(), figures[0]));
                    if round > 0 {
                        sheet.note(&setting, way.name(), figures);
                    }
                }
            }
        }
    }
    Ok(sheet)
}

/// A contender and what it has to publish.
struct Turn<'a, DB: OutboxEngine> {
    site: &'a Site<DB>,
    events: Events,
    batch: u32,
    settings: Settings,
    way: Way,
}

impl<DB: OutboxEngine> Turn<'_, DB> {
    async fn run(&self) -> anyhow::Result<Vec<f64>> {
        let topic = Topic::create(&self.site.brokers).await;
        self.site.empty().await;
        match self.way {
            Way::Loop => self.site.fill_table(&topic.name, self.events).await?,
            Way::Relay | Way::RelayWoken => self.site.fill_log(&topic.name, self.events).await?,
            Way::Produce => {}
        }
        let spent = tokio::time::timeout(LIMIT, async {
            match self.way {
                Way::Loop => self.by_loop(&topic).await,
                Way::Relay | Way::RelayWoken => self.by_relay().await,
                Way::Produce => tokio::task::block_in_place(|| self.by_producer(&topic)),
            }
        });
        let spent = spent.await.context("it does not end")??;
        let found = topic.read(self.events.count).await?;
        let all = (self.events.count, 0, 0, 0);
        let (distinct, doubled, inverted, strange) = (found.distinct, found.doubled, found.inverted, found.strange);
        ensure!((distinct, doubled, inverted, strange) == all, "wrong results: {found}");
        Ok(spent.figures(self.events.count))
    }

    async fn by_loop(&self, topic: &Topic) -> anyhow::Result<Spent> {
        let pool = self.site.relay_pool().await?;
        let mut connection = connection(&pool).await?;
        let mut producer = Plain::to(topic.brokers())?;
        let meter = Meter::start(self.site);
        let never = CancellationToken::new();
        let count = self.events.count;
        by_hand::run::<DB>(&mut connection, &mut producer, self.batch, count, &never).await?;
        meter.stop(self.site)
    }

    async fn by_relay(&self) -> anyhow::Result<Spent> {
        let pool = self.site.relay_pool().await?;
        let relay = self.settings.relay(&pool, &self.site.brokers)?.build()?;
        let (stats, shutdown) = (relay.stats(), CancellationToken::new());
        let meter = Meter::start(self.site);
        let mut running = tokio::spawn(relay.run(shutdown.clone()));
        while stats.published() < self.events.count {
            tokio::select! {
                ended = &mut running => anyhow::bail!("the relay ended early: {:?}", ended?),
                () = tokio::time::sleep(Duration::from_millis(2)) => {}
            }
        }
        let spent = meter.stop(self.site);
        shutdown.cancel();
        running.await??;
        spent
    }

    fn by_producer(&self, topic: &Topic) -> anyhow::Result<Spent> {
        let mut producer = Plain::to(topic.brokers())?;
        let meter = Meter::start(self.site);
        let id = Uuid::now_v7().to_string();
        for number in 0..self.events.count {
            let (key, value) = (self.events.key(number), self.events.value(number));
            producer.send(&topic.name, key.as_bytes(), &value, &id)?;
        }
        producer.flush()?;
        meter.stop(self.site)
    }
}

/// What is taken at the beginning of a turn.
struct Meter {
    own: f64,
    server: Option<f64>,
    started: Instant,
}

/// What a turn took.
struct Spent {
    own: f64,
    server: Option<f64>,
    seconds: f64,
}

impl Meter {
    fn start<DB: OutboxEngine>(site: &Site<DB>) -> Self {
        let server = site.cpu.seconds();
        Self { own: own_seconds(), server, started: Instant::now() }
    }

    fn stop<DB: OutboxEngine>(self, site: &Site<DB>) -> anyhow::Result<Spent> {
        let seconds = self.started.elapsed().as_secs_f64();
        let own = own_seconds() - self.own;
        let server = site.cpu.seconds().zip(self.server).map(|(after, before)| after - before);
        ensure!(seconds > 0.0, "it took no time");
        Ok(Spent { own, server, seconds })
    }
}

impl Spent {
    #[expect(clippy::cast_precision_loss, reason = "counts of events are far below 2^53")]
    fn figures(&self, events: u64) -> Vec<f64> {
        let of_100k = 100_000.0 / events as f64;
        vec![events as f64 / self.seconds, self.own * of_100k, self.server.map_or(f64::NAN, |server| server * of_100k)]
    }
}

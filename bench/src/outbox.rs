//! Events from a database to Kafka: leastlock's relay, the loop that one writes by hand, and the producer alone.
//!
//! | module | concept |
//! |---|---|
//! | `events` | events by their number, and what arrived of them |
//! | `topic`, `producer` | Kafka, as one uses it by hand |
//! | `by_hand` | table and loop, in sqlx and rdkafka alone |
//! | `site` | the database of all turns |
//! | `drain` | a backlog, as fast as it goes |
//! | `latency` | from commit to consumer, at a rate |
//! | `crash` | a drain whose process is killed |
//! | `soak`, `broker` | four relays and a broker of their own, killed and stopped at random |
//! | `child` | a relay, or the loop, in a process of its own |
//! | `aims` | the ratios that the project aims at |

mod aims;
mod broker;
mod by_hand;
mod child;
mod crash;
mod drain;
mod events;
mod latency;
mod producer;
mod site;
mod soak;
mod topic;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use leastlock_outbox::OutboxSql;
use leastlock_testkit::broker::KAFKA_BROKERS;

pub(crate) use self::by_hand::{BATCH, OutboxByHand};
pub(crate) use self::child::{ChildOptions, run as run_child};

use self::site::Site;
use crate::engine::BenchEngine;
use crate::options::{OutboxOptions, chosen};
use crate::progress::Progress;
use crate::report::Report;

/// An engine with all statements of this scenario.
pub(crate) trait OutboxEngine: BenchEngine + OutboxSql + OutboxByHand {}

impl<DB: BenchEngine + OutboxSql + OutboxByHand> OutboxEngine for DB {}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// How fast a backlog is published, and what it costs.
    Drain,
    /// From COMMIT to consumer, alone and beside an open writing transaction.
    Latency,
    /// What kill -9 in the middle of a drain leaves.
    Crash,
    /// Four relays under random kills, stops and broker restarts. Runs only if it is named.
    Soak,
}

impl Part {
    /// Those that are named; if none is, those that measure.
    fn chosen(named: &[Self]) -> Vec<Self> {
        let measures = |part: &Self| *part != Self::Soak || !named.is_empty();
        chosen(named).into_iter().filter(measures).collect()
    }
}

/// A way to publish what is in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// The hand-written loop.
    Loop,
    /// leastlock's relay.
    Relay,
    /// The same, woken after each commit, as one of the same process can be.
    RelayWoken,
    /// No database: the same records, straight to Kafka.
    Produce,
}

impl Way {
    /// Its name in the report.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Loop => "hand-written loop",
            Self::Relay => "relay",
            Self::RelayWoken => "relay, woken",
            Self::Produce => "produce alone",
        }
    }
}

/// Measures the scenario.
pub(crate) async fn run<DB: OutboxEngine>(options: &OutboxOptions) -> anyhow::Result<Report> {
    ensure!(options.common.clients.is_empty(), "`outbox` has no --clients; its writers are as many as --rate needs");
    let brokers = brokers(options)?;
    topic::answers(&brokers).await?;
    let site = Site::<DB>::create(brokers).await?;
    let mut report = Report::begin("outbox", options.command(), &options.common, &site.database).await?;
    report.cpu = Some(site.cpu.description());
    let parts = Part::chosen(&options.parts);
    let turns = parts.iter().map(|part| match part {
        Part::Drain => drain::turns(options),
        Part::Latency => latency::turns::<DB>(options),
        Part::Crash => crash::turns(options),
        Part::Soak => soak::turns(options),
    });
    let (turns, time) = turns.fold((0, std::time::Duration::ZERO), |sum, next| (sum.0 + next.0, sum.1 + next.1));
    let progress = Progress::begin(turns, time);
    for part in parts {
        report.sheets.extend(match part {
            Part::Drain => vec![drain::measure(&site, options, &progress).await?],
            Part::Latency => latency::measure(&site, options, &progress).await?,
            Part::Crash => vec![crash::measure(&site, options, &progress).await?],
            Part::Soak => vec![soak::measure(&site, options, &progress).await?],
        });
    }
    progress.end();
    report.aims = aims::of(&report.sheets);
    Ok(report)
}

fn brokers(options: &OutboxOptions) -> anyhow::Result<String> {
    match &options.brokers {
        Some(brokers) => Ok(brokers.clone()),
        None => std::env::var(KAFKA_BROKERS).with_context(|| {
            format!("no broker: give --brokers, or set {KAFKA_BROKERS} (eval \"$(scripts/services env)\")")
        }),
    }
}

//! Records from Kafka to handlers: leastlock's worker, the loop that one writes by hand, and polling alone.
//!
//! | module | concept |
//! |---|---|
//! | `topic` | the records of a turn, on the mock cluster or a real broker |
//! | `task` | what a child process is told, and what it answers |
//! | `child` | a contender in a process of its own |
//! | `tally` | what a contender has done by when |
//! | `timer` | a sleep that takes as long as it says |
//! | `by_hand` | polling alone, and a loop of tasks |
//! | `site` | broker and database of all turns |
//! | `sleep`, `row`, `blocked` | handlers that sleep, that update a row, that stand still |
//! | `soak` | three workers, killed, stopped and rebalanced at random |
//! | `aims` | the ratios that the project aims at |

mod aims;
mod blocked;
mod by_hand;
mod child;
mod row;
mod site;
mod sleep;
mod soak;
mod tally;
mod task;
mod timer;
mod topic;

use anyhow::ensure;
use clap::ValueEnum;
use leastlock_core::Engine;
use serde::{Deserialize, Serialize};

pub(crate) use self::child::{ChildOptions, run as run_child};
pub(crate) use self::task::Protocol;

use self::site::Site;
use crate::options::{WorkerOptions, chosen};
use crate::progress::Progress;
use crate::report::Report;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Handlers that sleep: how near to the ceiling, which is the smaller of concurrency and keys over the sleep.
    Sleep,
    /// Handlers that do nothing, beside a loop that polls and does nothing.
    Poll,
    /// Handlers that update a row of their key in PostgreSQL.
    Row,
    /// Some keys stand still: what becomes of the others.
    Blocked,
    /// Three workers under random kills, stops and rebalances. Runs only if it is named.
    Soak,
}

impl Part {
    /// Those that are named; if none is, those that measure.
    fn chosen(named: &[Self]) -> Vec<Self> {
        let measures = |part: &Self| *part != Self::Soak || !named.is_empty();
        chosen(named).into_iter().filter(measures).collect()
    }
}

/// A way to consume records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Way {
    /// A loop that polls, and handles nothing.
    Poll,
    /// A hand-written loop: 16 tasks, keys dealt out among them, one statement a record.
    Loop,
    /// The same with a transaction a record.
    LoopTransaction,
    /// leastlock's worker, at least once.
    Worker,
    /// The same with the exactly-once effect, a transaction a record.
    Record,
    /// The same with many records a transaction.
    Batch,
}

impl Way {
    /// Its name in the report.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Poll => "bare poll loop",
            Self::Loop => "hand-written loop",
            Self::LoopTransaction => "the same, BEGIN and COMMIT",
            Self::Worker => "worker",
            Self::Record => "worker, record mode",
            Self::Batch => "worker, batch mode",
        }
    }
}

/// Measures the scenario.
pub(crate) async fn run(options: &WorkerOptions) -> anyhow::Result<Report> {
    ensure!(options.common.clients.is_empty(), "`worker` has no --clients; see --concurrency");
    ensure!(options.common.engine() == Engine::Postgres, "`worker` keeps its rows and its progress in PostgreSQL");
    let site = Site::create(options).await?;
    let mut report = Report::begin("worker", options.command(), &options.common, &site.database).await?;
    report.cpu = Some("of the contender's own process alone");
    let parts = Part::chosen(&options.parts);
    let turns = parts.iter().map(|part| match part {
        Part::Sleep => sleep::turns(options),
        Part::Poll => sleep::turns_of_poll(options),
        Part::Row => row::turns(options),
        Part::Blocked => blocked::turns(options),
        Part::Soak => soak::turns(options),
    });
    let (turns, time) = turns.fold((0, std::time::Duration::ZERO), |sum, next| (sum.0 + next.0, sum.1 + next.1));
    let progress = Progress::begin(turns, time);
    for part in parts {
        report.sheets.push(match part {
            Part::Sleep => sleep::measure(&site, options, &progress).await?,
            Part::Poll => sleep::measure_poll(&site, options, &progress).await?,
            Part::Row => row::measure(&site, options, &progress).await?,
            Part::Blocked => blocked::measure(&site, options, &progress).await?,
            Part::Soak => soak::measure(&site, options, &progress).await?,
        });
    }
    progress.end();
    report.aims = aims::of(&report.sheets);
    Ok(report)
}

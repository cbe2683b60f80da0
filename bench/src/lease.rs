//! Acquire and release: leastlock's lease against the two commands that one writes by hand on the same driver.
//!
//! | module | concept |
//! |---|---|
//! | `locks` | what a backend brings: its store, and the two commands by hand |
//! | `sql`, `redis`, `etcd`, `zookeeper` | the backends |
//! | `backend` | all of them, a line each |
//! | `way` | the contenders, and one cycle of each |
//! | `turn` | the clients of one turn, and whether they kept each other out |
//! | `aims` | the ratios that the project aims at |
//! | `faults` | holders that are stopped, or cut off from the network |

mod aims;
mod backend;
mod etcd;
mod faults;
mod locks;
mod redis;
mod sql;
mod turn;
mod way;
mod zookeeper;

use std::time::Duration;

use anyhow::ensure;
use clap::ValueEnum;
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Sqlite;

pub(crate) use self::backend::Backend;
pub(crate) use self::faults::{ChildOptions, run_child};
pub(crate) use self::way::Way;

use self::turn::WARM;
use crate::options::{LeaseOptions, chosen};
use crate::progress::Progress;
use crate::report::Report;
use crate::sheet::Sheet;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Each client has a key of its own.
    Own,
    /// All clients want the same key.
    One,
    /// Holders that are stopped beyond their TTL. Runs only if it is named.
    Pauses,
    /// Holders whose network loses everything for longer than their TTL. Runs only if it is named.
    Cuts,
}

const CYCLES: &str = "cycles/s";
const P99_WAIT: &str = "p99 wait ms";
const SHARE: &str = "min/max share";
const CPU: &str = "CPU µs/cycle";

impl Part {
    /// Those that are named; if none is, those that measure.
    fn chosen(named: &[Self]) -> Vec<Self> {
        chosen(named).into_iter().filter(|part| part.measures() || !named.is_empty()).collect()
    }

    /// Whether it compares contenders.
    pub(crate) const fn measures(self) -> bool {
        matches!(self, Self::Own | Self::One)
    }

    /// Its name in the report.
    const fn name(self) -> &'static str {
        match self {
            Self::Own => "own keys",
            Self::One => "one key",
            Self::Pauses => "pauses",
            Self::Cuts => "cuts",
        }
    }

    const fn ways(self) -> &'static [Way] {
        match self {
            Self::Own => &[Way::Raw, Way::Fenced, Way::Efficiency],
            Self::One => &[Way::Polling, Way::Fenced, Way::Efficiency, Way::Apart],
            Self::Pauses | Self::Cuts => &[],
        }
    }

    const fn figures(self) -> &'static [&'static str] {
        match self {
            Self::Own => &[CYCLES, "p50 ms", "p99 ms", CPU],
            Self::One => &[CYCLES, "p50 wait ms", P99_WAIT, SHARE, CPU],
            Self::Pauses | Self::Cuts => &[],
        }
    }

    fn sheet(self) -> Sheet {
        Sheet::new(self.name(), self.ways().first().map(|base| base.name()), self.figures())
    }

    /// One client has no rival.
    fn clients(self, options: &LeaseOptions) -> Vec<u32> {
        let clients = options.common.with_clients(&[1, 16]).clients;
        clients.into_iter().filter(|clients| self == Self::Own || *clients > 1).collect()
    }
}

/// Measures the scenario.
pub(crate) async fn run(options: &LeaseOptions) -> anyhow::Result<Report> {
    let (mut backends, mut left_out) = (Vec::new(), Vec::new());
    for backend in chosen(&options.backends) {
        if let Some(missing) = backend.missing() {
            ensure!(options.backends.is_empty(), "{missing}");
            left_out.push(format!("Left out: {missing}."));
        } else {
            backends.push(backend);
        }
    }
    ensure!(!backends.is_empty(), "there is no server to measure: {}", left_out.join(" "));
    let (measuring, faults): (Vec<_>, Vec<_>) =
        Part::chosen(&options.parts).into_iter().partition(|part| part.measures());
    let mut report = if measuring.is_empty() {
        fail(options, &faults, &backends).await?
    } else {
        ensure!(faults.is_empty(), "`pauses` and `cuts` would disturb what is measured: give them a run of their own");
        compare(options, &measuring, &backends).await?
    };
    report.notes.extend(left_out);
    Ok(report)
}

/// Lets the contenders of these parts run in turn.
async fn compare(options: &LeaseOptions, parts: &[Part], backends: &[Backend]) -> anyhow::Result<Report> {
    let mut sites = Vec::new();
    for backend in backends {
        sites.push(backend.create().await?);
    }
    let mut engines = Vec::new();
    for site in &sites {
        engines.push(site.about().await?);
    }
    let mut report = Report::on("lease", options.command(), &options.common, engines.join(", "), today().await)?;
    report.cpu = Some("of this process: the clients, and SQLite's engine");
    let progress = begin(options, parts, sites.len());
    report.sheets = parts.iter().map(|part| part.sheet()).collect();
    for round in 0..=options.common.rounds {
        for (part, sheet) in parts.iter().zip(&mut report.sheets) {
            for site in &sites {
                for clients in part.clients(options) {
                    let round = Round { part: *part, clients, warms_up: round == 0, options, progress: &progress };
                    site.hold(&round, sheet).await?;
                }
            }
        }
    }
    for site in sites {
        site.end().await?;
    }
    progress.end();
    report.aims = aims::of(&report.sheets);
    Ok(report)
}

/// Lets holders meet the faults of these parts.
async fn fail(options: &LeaseOptions, parts: &[Part], backends: &[Backend]) -> anyhow::Result<Report> {
    let turns = parts.iter().map(|part| faults::turns(*part, backends, options));
    let (turns, time) = turns.fold((0, Duration::ZERO), |sum, next| (sum.0 + next.0, sum.1 + next.1));
    let (progress, mut engines, mut sheets) = (Progress::begin(turns, time), Vec::new(), Vec::new());
    for part in parts {
        let found = faults::measure(*part, backends, options, &progress).await?;
        engines.extend(found.about);
        sheets.push(found.sheet);
    }
    progress.end();
    let mut seen = std::collections::HashSet::new();
    engines.retain(|engine| seen.insert(engine.clone()));
    let mut report = Report::on("lease", options.command(), &options.common, engines.join(", "), today().await)?;
    report.aims = sheets.iter().flat_map(faults::aims).collect();
    report.sheets = sheets;
    Ok(report)
}

/// The contenders of a part in turn, with so many clients.
struct Round<'a> {
    part: Part,
    clients: u32,
    /// It does not count.
    warms_up: bool,
    options: &'a LeaseOptions,
    progress: &'a Progress,
}

fn begin(options: &LeaseOptions, parts: &[Part], sites: usize) -> Progress {
    let a_round: usize =
        parts.iter().map(|part| sites * part.clients(options).len() * options.running(part.ways()).len()).sum();
    let turns = u64::from(options.common.rounds + 1) * a_round as u64;
    let each = options.common.seconds + WARM;
    Progress::begin(turns, each.saturating_mul(u32::try_from(turns).unwrap_or(u32::MAX)).max(Duration::ZERO))
}

/// By SQLite's clock, which is this machine's.
async fn today() -> String {
    let database = TestDatabase::<Sqlite>::create().await;
    let today = sqlx::query_scalar("SELECT current_date").fetch_one(&database.pool).await;
    today.unwrap_or_default()
}

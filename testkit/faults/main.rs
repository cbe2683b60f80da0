//! The fault suite: what leastlock promises, under kills, pauses, cut networks and swallowed replies.
//!
//! | module | concept |
//! |---|---|
//! | `args` | what it is asked to do |
//! | `run` | scenarios side by side, from the first call to the verdict |
//! | `workload` | what runs, and what its histories have to satisfy |
//! | `mutant` | mechanisms with a mistake, which must be caught |
//! | `schedule`, `inject` | what happens to them, drawn from a seed |
//! | `servers` | servers of its own, killed and started again meanwhile |
//! | `ground`, `network`, `fleet` | databases and names of their own; proxies; processes |
//! | `part` | one process, as it sees itself |
//! | `record` | what was called and answered |
//! | `report` | what is told of it |

#![allow(
    clippy::missing_panics_doc,
    reason = "what goes wrong in the suite itself ends it, and a panic is how that is done"
)]

mod args;
mod fleet;
mod ground;
mod inject;
mod mutant;
mod network;
mod part;
mod pool;
mod record;
mod report;
mod run;
mod schedule;
mod servers;
mod workload;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use tokio_util::sync::CancellationToken;

use crate::args::{Arguments, Hidden, Options};
use crate::run::{Outcome, Scenario};
use crate::servers::{Restarts, Servers};

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments.hidden {
        Some(Hidden::Part { task }) => {
            let played = runtime.block_on(part::play(&task));
            // What still runs in the background is over with the process.
            runtime.shutdown_background();
            played.map(|()| ExitCode::SUCCESS)
        }
        None => {
            let options = arguments.options.profiled();
            if options.own_servers && !options.list && Servers::of_environment().is_none() {
                return servers::with_own();
            }
            runtime.block_on(suite(&options))
        }
    }
}

async fn suite(options: &Options) -> anyhow::Result<ExitCode> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    let scenarios = run::scenarios(options, seed);
    anyhow::ensure!(!scenarios.is_empty(), "no scenario is called that");
    if options.list {
        for scenario in &scenarios {
            println!("{}", scenario.name());
            for injection in scenario.injections()? {
                println!("  {injection}");
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (folder, count) = (tempfile::tempdir()?, scenarios.len());
    let bar = ProgressBar::new(scenarios.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("[{pos}/{len}, {elapsed}] {msg}") {
        bar.set_style(style);
    }
    let ended = |outcome: &Outcome| {
        // On a terminal above the line that changes, elsewhere as it is.
        bar.suspend(|| println!("{}", report::line(outcome)));
        bar.inc(1);
    };
    let outcomes = match Servers::of_environment() {
        None => {
            let they_stay_up = CancellationToken::new();
            they_stay_up.cancel();
            run::run(scenarios, options.at_once, folder.path(), &they_stay_up, ended).await
        }
        Some(servers) => disturbed(servers, scenarios, seed, options, folder.path(), ended).await?,
    };
    bar.finish_and_clear();
    report::write(&options.report, seed, options.minutes, options.own_servers, &outcomes)?;
    println!("report: {}", options.report.join("index.html").display());
    let is_good = outcomes.len() == count && outcomes.iter().all(Outcome::is_good);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// First the scenarios, some at once, while servers are killed and restarted, and then the mutants, on servers that stay up.
async fn disturbed(
    servers: Servers,
    scenarios: Vec<Scenario>,
    seed: u64,
    options: &Options,
    folder: &Path,
    mut ended: impl FnMut(&Outcome),
) -> anyhow::Result<Vec<Outcome>> {
    let (mutants, scenarios): (Vec<_>, Vec<_>) = scenarios.into_iter().partition(|scenario| scenario.mutant.is_some());
    let (mut outcomes, time, servers) = (Vec::new(), options.time(), Arc::new(servers));
    for (number, together) in (0_u64..).zip(scenarios.chunks(options.at_once.max(1))) {
        let (restarts, they_stay_up) = (Restarts::default(), CancellationToken::new());
        let (servers, noted, over) = (Arc::clone(&servers), Arc::clone(&restarts), they_stay_up.clone().drop_guard());
        let disturbing = tokio::task::spawn_blocking(move || {
            let _over = over;
            servers.disturb(seed ^ number, time, &noted)
        });
        let folder = folder.join(number.to_string());
        let mut of_these = run::run(together.to_vec(), together.len(), &folder, &they_stay_up, &mut ended).await;
        disturbing.await??;
        let restarts = restarts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for outcome in &mut of_these {
            outcome.meanwhile(&restarts);
        }
        outcomes.extend(of_these);
    }
    let they_stay_up = CancellationToken::new();
    they_stay_up.cancel();
    outcomes.extend(run::run(mutants, options.at_once, &folder.join("mutants"), &they_stay_up, ended).await);
    Ok(outcomes)
}

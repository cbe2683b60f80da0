//! The fault suite: what leastlock promises, under kills, pauses, cut networks and swallowed replies.
//!
//! | module | concept |
//! |---|---|
//! | `args` | what it is asked to do |
//! | `run` | scenarios side by side, from the first call to the verdict |
//! | `workload` | what runs, and what its histories have to satisfy |
//! | `mutant` | mechanisms with a mistake, which must be caught |
//! | `schedule`, `inject` | what happens to them, drawn from a seed |
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
mod workload;

use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Arguments, Hidden, Options};

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
        None => runtime.block_on(suite(&arguments.options)),
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
    let folder = tempfile::tempdir()?;
    let bar = ProgressBar::new(scenarios.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("[{pos}/{len}, {elapsed}] {msg}") {
        bar.set_style(style);
    }
    let run = run::run(scenarios, options.at_once, folder.path().to_owned(), |outcome| {
        // On a terminal above the line that changes, elsewhere as it is.
        bar.suspend(|| println!("{}", report::line(outcome)));
        bar.inc(1);
    });
    let outcomes = run.await?;
    bar.finish_and_clear();
    report::write(&options.report, seed, options.minutes, options.own_servers, &outcomes)?;
    println!("report: {}", options.report.join("index.html").display());
    let is_good = outcomes.iter().all(run::Outcome::is_good);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

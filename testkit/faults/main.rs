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
    std::fs::create_dir_all(&options.report)?;
    let folder = tempfile::tempdir()?;
    let outcomes = run::run(scenarios, options.at_once, folder.path().to_owned(), |outcome| {
        println!("{}", report::line(outcome));
    });
    let outcomes = outcomes.await?;
    let is_good = outcomes.iter().all(run::Outcome::is_good);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! Benchmarks of leastlock: what a mechanism costs against the same statements written by hand, run in turn in one
//! process. A benchmark whose results do not add up ends with exit code 1 and prints no table.
//!
//! | module | concept |
//! |---|---|
//! | `options` | what the command line says |
//! | `engine` | the databases it runs on |
//! | `contest` | contenders in turn, round by round, each round verified |
//! | `statistics` | median, percentile, ratio |
//! | `report` | the tables |
//! | `files` | CSV, JSON |
//! | `plot` | SVG |
//! | `stock` with `combine`, `idempotency` | the scenarios |

mod combine;
mod contest;
mod engine;
mod files;
mod idempotency;
mod options;
mod plot;
mod report;
mod statistics;
mod stock;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::Parser;
use leastlock_testkit::database::{POSTGRES_URL, Postgres, Sqlite};
use sqlx::{Connection, PgConnection};

use crate::engine::BenchEngine;
use crate::options::{Options, Scenario};
use crate::report::Report;

/// Measures leastlock against the same statements written by hand in sqlx.
///
/// Contenders run in turn (A B A B …) in one process, after a warm-up round that is not counted. Reported are medians
/// over the rounds, and the ratio leastlock / other of each round's throughput: median, and min to max in brackets. Every
/// round's result is verified in the database. Plot, CSV and JSON are written beside.
#[derive(Debug, Parser)]
#[command(name = "leastlock-bench", version)]
struct Cli {
    #[command(subcommand)]
    scenario: Scenario,
}

fn main() -> ExitCode {
    match start(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(cli: &Cli) -> anyhow::Result<()> {
    if !cli.scenario.options().sqlite {
        use_server(cli.scenario.options())?;
    }
    let runtime = tokio::runtime::Runtime::new().context("the runtime does not start")?;
    runtime.block_on(async {
        tokio::select! {
            done = run(&cli.scenario) => done,
            // Dropping the run drops its database.
            _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted; no results"),
        }
    })
}

/// Test databases are made on the server that the environment names. A process cannot change its own environment while
/// threads may read it, so it begins anew in the right one.
fn use_server(options: &Options) -> anyhow::Result<()> {
    let configured = std::env::var(POSTGRES_URL).ok();
    let Some(url) = &options.database else {
        configured.with_context(|| {
            format!(
                "no server: give --database URL, set {POSTGRES_URL} (eval \"$(scripts/services env)\"), or use --sqlite"
            )
        })?;
        return Ok(());
    };
    if configured.as_ref() == Some(url) {
        return Ok(());
    }
    let program = std::env::current_exe().context("this program has no path")?;
    let error = Command::new(program).args(std::env::args_os().skip(1)).env(POSTGRES_URL, url).exec();
    Err(error).context("this program does not start again")
}

async fn run(scenario: &Scenario) -> anyhow::Result<()> {
    let report = if scenario.options().sqlite {
        measure::<Sqlite>(scenario).await?
    } else {
        // Found out here, a missing server is an error with a name; later it would be a panic of the test database.
        let url = std::env::var(POSTGRES_URL)?;
        let server = PgConnection::connect(&url).await.context("the PostgreSQL server does not answer")?;
        server.close().await?;
        measure::<Postgres>(scenario).await?
    };
    let options = scenario.options();
    println!("{}", if options.markdown { report.markdown() } else { report.to_string() });
    files::write(&report, &options.out)?;
    plot::write(&report, &options.out)?;
    eprintln!("plot, rounds and report: {}/{}.{{svg,csv,json}}", options.out.display(), report.scenario);
    Ok(())
}

async fn measure<DB: BenchEngine>(scenario: &Scenario) -> anyhow::Result<Report> {
    match scenario {
        Scenario::Stock(options) => stock::run::<DB>(options).await,
        Scenario::Idempotency(options) => idempotency::run::<DB>(options).await,
    }
}

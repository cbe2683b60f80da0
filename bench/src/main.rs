//! Benchmarks of leastlock: what a mechanism costs against the same statements written by hand, run in turn in one
//! process. A benchmark whose results do not add up ends with exit code 1 and prints no table.
//!
//! | module | concept |
//! |---|---|
//! | `options` | what the command line says |
//! | `engine` | the databases it runs on |
//! | `contest` | contenders in turn, round by round, each round verified |
//! | `load` | the clients of one turn |
//! | `cpu` | processor time of the database |
//! | `progress` | how far a run has come |
//! | `statistics` | median, percentile, ratio |
//! | `report` | the tables |
//! | `files` | CSV, JSON |
//! | `plot` | SVG |
//! | `stock`, `idempotency` | the scenarios |

mod contest;
mod cpu;
#[cfg(test)]
mod each_engine;
mod engine;
mod files;
mod idempotency;
mod load;
mod options;
mod plot;
mod progress;
mod report;
mod statistics;
mod stock;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use leastlock_core::Engine;
use leastlock_testkit::database::{MYSQL_URL, MySql, POSTGRES_URL, Postgres, Sqlite};
use sqlx::{Connection, MySqlConnection, PgConnection};

use crate::idempotency::KeyEngine;
use crate::options::{Options, Scenario};
use crate::report::Report;

/// Measures leastlock against the same statements written by hand in sqlx.
///
/// Contenders run in turn (A B A B …) in one process, after a warm-up round that is not counted. Reported are medians
/// over the rounds, and ratios of each round's throughput: median, and min to max in brackets. Every round's result is
/// verified in the database; the exit code is 1 if one is wrong. Plot, CSV and JSON are written beside.
#[derive(Debug, Parser)]
#[command(name = "leastlock-bench", version)]
struct Cli {
    #[command(subcommand)]
    scenario: Scenario,
}

fn main() -> ExitCode {
    match start(&Cli::parse().scenario.with_defaults()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(scenario: &Scenario) -> anyhow::Result<()> {
    match scenario.options().engine() {
        Engine::Sqlite => {}
        Engine::MySql => use_server(MYSQL_URL, scenario.options())?,
        _ => use_server(POSTGRES_URL, scenario.options())?,
    }
    let runtime = tokio::runtime::Runtime::new().context("the runtime does not start")?;
    runtime.block_on(async {
        tokio::select! {
            done = run(scenario) => done,
            // Dropping the run drops its database.
            _ = tokio::signal::ctrl_c() => bail!("interrupted; no results"),
        }
    })
}

/// Test databases are made on the server that the environment names. A process cannot change its own environment while
/// threads may read it, so it begins anew in the right one.
fn use_server(variable: &str, options: &Options) -> anyhow::Result<()> {
    let configured = std::env::var(variable).ok();
    let Some(url) = &options.database else {
        configured.with_context(|| {
            format!(
                "no server: give --database URL, set {variable} (eval \"$(scripts/services env)\"), or use --sqlite"
            )
        })?;
        return Ok(());
    };
    if configured.as_ref() == Some(url) {
        return Ok(());
    }
    let program = std::env::current_exe().context("this program has no path")?;
    let error = Command::new(program).args(std::env::args_os().skip(1)).env(variable, url).exec();
    Err(error).context("this program does not start again")
}

async fn run(scenario: &Scenario) -> anyhow::Result<()> {
    let report = measure(scenario).await?;
    let options = scenario.options();
    println!("{}", if options.markdown { report.markdown() } else { report.to_string() });
    files::write(&report, &options.out)?;
    plot::write(&report, &options.out)?;
    eprintln!("plot, rounds and report: {}/{}.{{svg,csv,json}}", options.out.display(), report.scenario);
    let wrong = report.wrong();
    ensure!(wrong.is_empty(), "what was not there was sold: {}", wrong.join("; "));
    Ok(())
}

async fn measure(scenario: &Scenario) -> anyhow::Result<Report> {
    match scenario.options().engine() {
        Engine::Sqlite => on_engine::<Sqlite>(scenario).await,
        // Found out here, a missing server is an error with a name; later it would be a panic of the test database.
        Engine::MySql => {
            let url = std::env::var(MYSQL_URL)?;
            MySqlConnection::connect(&url).await.context("the MariaDB server does not answer")?.close().await?;
            on_engine::<MySql>(scenario).await
        }
        _ => {
            let url = std::env::var(POSTGRES_URL)?;
            PgConnection::connect(&url).await.context("the PostgreSQL server does not answer")?.close().await?;
            on_engine::<Postgres>(scenario).await
        }
    }
}

async fn on_engine<DB: KeyEngine + stock::StockEngine>(scenario: &Scenario) -> anyhow::Result<Report> {
    match scenario {
        Scenario::Stock(options) => stock::run::<DB>(options).await,
        Scenario::Idempotency(options) => idempotency::run::<DB>(options).await,
    }
}

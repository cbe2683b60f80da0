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
//! | `sheet` | figures of those that are given so much to do |
//! | `slot` | child processes that are killed and stopped, and come back |
//! | `stock`, `idempotency`, `outbox`, `worker`, `lease` | the scenarios |

mod contest;
mod cpu;
#[cfg(test)]
mod each_engine;
mod engine;
mod files;
mod idempotency;
mod lease;
mod load;
mod options;
mod outbox;
mod plot;
mod progress;
mod report;
mod sheet;
mod slot;
mod statistics;
mod stock;
mod worker;

use std::os::unix::process::CommandExt;
use std::process::{self, ExitCode};

use anyhow::{Context, bail, ensure};
use clap::{Parser, Subcommand};
use leastlock_core::Engine;
use leastlock_testkit::database::{MYSQL_URL, MySql, POSTGRES_URL, Postgres, Sqlite};
use sqlx::{Connection, MySqlConnection, PgConnection};

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
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Measure(Box<Scenario>),
    /// What `outbox` starts in processes of their own.
    #[command(hide = true)]
    OutboxChild(outbox::ChildOptions),
    /// What `worker` starts in processes of their own.
    #[command(hide = true)]
    WorkerChild(worker::ChildOptions),
    /// What `lease` starts in processes of their own.
    #[command(hide = true)]
    LeaseChild(lease::ChildOptions),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Measure(scenario) => start(&scenario.with_defaults()),
        Command::WorkerChild(options) => runtime().and_then(|runtime| runtime.block_on(worker::run_child(&options))),
        Command::LeaseChild(options) => runtime().and_then(|runtime| runtime.block_on(lease::run_child(&options))),
        Command::OutboxChild(options) => runtime().and_then(|runtime| runtime.block_on(outbox::run_child(&options))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(scenario: &Scenario) -> anyhow::Result<()> {
    match scenario.options().engine() {
        // It takes what servers there are.
        _ if matches!(scenario, Scenario::Lease(_)) => {}
        Engine::Sqlite => {}
        Engine::MySql => use_server(MYSQL_URL, scenario.options())?,
        _ => use_server(POSTGRES_URL, scenario.options())?,
    }
    runtime()?.block_on(async {
        tokio::select! {
            done = run(scenario) => done,
            // Dropping the run drops its database.
            _ = tokio::signal::ctrl_c() => bail!("interrupted; no results"),
        }
    })
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Runtime::new().context("the runtime does not start")
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
    let error = process::Command::new(program).args(std::env::args_os().skip(1)).env(variable, url).exec();
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
    let engine = scenario.options().engine();
    if !matches!(scenario, Scenario::Lease(_)) {
        answers(engine).await?;
    }
    match (scenario, engine) {
        (Scenario::Stock(options), Engine::Sqlite) => stock::run::<Sqlite>(options).await,
        (Scenario::Stock(options), Engine::MySql) => stock::run::<MySql>(options).await,
        (Scenario::Stock(options), _) => stock::run::<Postgres>(options).await,
        (Scenario::Idempotency(options), Engine::Sqlite) => idempotency::run::<Sqlite>(options).await,
        (Scenario::Idempotency(options), Engine::MySql) => idempotency::run::<MySql>(options).await,
        (Scenario::Idempotency(options), _) => idempotency::run::<Postgres>(options).await,
        (Scenario::Outbox(options), Engine::Sqlite) => outbox::run::<Sqlite>(options).await,
        (Scenario::Outbox(options), Engine::MySql) => outbox::run::<MySql>(options).await,
        (Scenario::Outbox(options), _) => outbox::run::<Postgres>(options).await,
        (Scenario::Worker(options), _) => worker::run(options).await,
        (Scenario::Lease(options), _) => lease::run(options).await,
    }
}

/// Found out here, a missing server is an error with a name; later it would be a panic of the test database.
async fn answers(engine: Engine) -> anyhow::Result<()> {
    match engine {
        Engine::Sqlite => {}
        Engine::MySql => {
            let url = std::env::var(MYSQL_URL)?;
            MySqlConnection::connect(&url).await.context("the MariaDB server does not answer")?.close().await?;
        }
        _ => {
            let url = std::env::var(POSTGRES_URL)?;
            PgConnection::connect(&url).await.context("the PostgreSQL server does not answer")?.close().await?;
        }
    }
    Ok(())
}

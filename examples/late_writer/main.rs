//! A holder that is stopped for longer than its lease, and what its late write does to a resource with a fence and to one without.
//!
//! `cargo run --example late_writer -- --help` lists the options; README.md beside this file says what to look at.

mod args;
mod child;
mod engine;
mod experiment;
mod holder;

use std::process::ExitCode;

use clap::Parser;
use sqlx::{Postgres, Sqlite};

use crate::args::Args;
use crate::engine::{BoxError, Engine};
use crate::experiment::{EXPECTED, Experiment};

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("error: {}", error.to_string().replace('\n', " "));
            ExitCode::from(2)
        }
    }
}

async fn run(args: &Args) -> Result<ExitCode, BoxError> {
    // Held to the end: the temporary file goes with it.
    let folder = tempfile::tempdir()?;
    let temporary = format!("sqlite://{}", folder.path().join("late_writer.sqlite").display());
    let url = args.database.as_deref().unwrap_or(&temporary);
    match url.split_once(':').map_or("", |(scheme, _)| scheme) {
        "postgres" | "postgresql" => run_on::<Postgres>(args, url).await,
        "sqlite" => run_on::<Sqlite>(args, url).await,
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => run_on::<sqlx::MySql>(args, url).await,
        #[cfg(not(feature = "mysql"))]
        "mysql" | "mariadb" => {
            Err("this build is without MySQL: cargo run --features mysql --example late_writer".into())
        }
        _ => Err("--database must begin with postgres://, mysql:// or sqlite://".into()),
    }
}

async fn run_on<DB: Engine>(args: &Args, url: &str) -> Result<ExitCode, BoxError> {
    let pool = DB::open(url).await?;
    if args.holder {
        holder::run(&pool, args).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let experiment = Experiment::new(&pool, url, args).await?;
    let mut seen = experiment.round().await?;
    for _ in 1..args.rounds {
        if seen != EXPECTED {
            break;
        }
        seen = experiment.round().await?;
    }
    for line in &seen {
        println!("{line}");
    }
    if seen == EXPECTED {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("breach: a late holder ended a lease that is not its own, or wrote to the fenced resource");
    Ok(ExitCode::from(1))
}

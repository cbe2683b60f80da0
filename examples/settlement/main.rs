//! A batch that runs once a day, whatever dies: two machines whose clocks start it at the same time, and kills.
//!
//! `cargo run --release --example settlement -- --help` lists the options; README.md beside this file explains the parts.

mod args;
mod books;
mod crew;
#[path = "../checkout/ended.rs"]
mod ended;
mod engine;
mod run;
mod worker;

use std::process::ExitCode;

use clap::Parser;
use sqlx::{Postgres, Sqlite};

use crate::args::{Args, Command};
use crate::ended::Ended;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    Ended::exit_code(match &args.command {
        None => settle(&args).await,
        Some(Command::Worker(of)) if of.database.starts_with("postgres") => worker::work::<Postgres>(of).await,
        Some(Command::Worker(of)) => worker::work::<Sqlite>(of).await,
    })
}

async fn settle(args: &Args) -> Result<(), Ended> {
    // Held to the end: the temporary file goes with it.
    let folder = tempfile::tempdir().map_err(|error| Ended::refused("no temporary folder", &error))?;
    let temporary = format!("sqlite://{}", folder.path().join("settlement.sqlite").display());
    let url = args.database.as_deref().unwrap_or(&temporary);
    match url.split_once(':').map_or("", |(scheme, _)| scheme) {
        "postgres" | "postgresql" => run::run::<Postgres>(args, url).await,
        "sqlite" => run::run::<Sqlite>(args, url).await,
        _ => Err(Ended::Refused("--database must begin with postgres:// or sqlite://".to_owned())),
    }
}

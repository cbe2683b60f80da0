//! A report that is written to a file under a lease, by a holder that stands still for longer than its lease.
//!
//! `cargo run --release --example report -- --help` lists the options; README.md beside this file explains the parts.

mod args;
mod books;
#[path = "../settlement/crew.rs"]
mod crew;
mod draft;
#[path = "../checkout/ended.rs"]
mod ended;
#[path = "../settlement/engine.rs"]
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
        None => report(&args).await,
        Some(Command::Worker(of)) if of.database.starts_with("postgres") => worker::work::<Postgres>(of).await,
        Some(Command::Worker(of)) => worker::work::<Sqlite>(of).await,
    })
}

async fn report(args: &Args) -> Result<(), Ended> {
    // Held to the end: the temporary files go with it.
    let temporary = tempfile::tempdir().map_err(|error| Ended::refused("no temporary folder", &error))?;
    let folder = args.folder.clone().unwrap_or_else(|| temporary.path().join("reports"));
    std::fs::create_dir_all(&folder).map_err(|error| Ended::refused("cannot make the folder", &error))?;
    let sqlite = format!("sqlite://{}", temporary.path().join("report.sqlite").display());
    let url = args.database.as_deref().unwrap_or(&sqlite);
    match url.split_once(':').map_or("", |(scheme, _)| scheme) {
        "postgres" | "postgresql" => run::run::<Postgres>(args, url, &folder).await,
        "sqlite" => run::run::<Sqlite>(args, url, &folder).await,
        _ => Err(Ended::Refused("--database must begin with postgres:// or sqlite://".to_owned())),
    }
}

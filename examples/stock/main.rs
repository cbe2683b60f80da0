//! One row of stock, more buyers than units: the same decrement done wrong once and right five times.
//!
//! `cargo run --release --example stock -- --help` lists the options; README.md beside this file says what to look at.

mod engine;
mod fenced;
mod race;
mod ways;

use std::process::ExitCode;

use clap::Parser;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use sqlx::{Postgres, Sqlite};

use crate::engine::Engine;
use crate::race::{Race, Ran};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Sells one item to more buyers than there are units, in six ways, and counts what was oversold.
///
/// Exit codes: 0 only the wrong way oversold, or none did; 1 a right way oversold or lost a unit; 2 bad arguments or an
/// unreachable server.
#[derive(Debug, Parser)]
#[command(name = "stock")]
struct Args {
    /// postgres://… or sqlite://…; default: a temporary SQLite file. A table `stock_example` is made in it.
    #[arg(long, value_name = "URL")]
    database: Option<String>,

    /// Buyers at the same time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,

    /// Units of the item
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    stock: i64,

    /// Attempts to buy one unit, over all buyers; twice the stock by default
    #[arg(long, value_name = "N")]
    attempts: Option<i64>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("breach: a way that must be right oversold or lost a unit");
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: &Args) -> Result<bool, BoxError> {
    // Held to the end: the temporary file goes with it.
    let folder = tempfile::tempdir()?;
    let temporary = format!("sqlite://{}", folder.path().join("stock.sqlite").display());
    let url = args.database.as_deref().unwrap_or(&temporary);
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        run_on::<Postgres>(args, url).await
    } else if url.starts_with("sqlite:") {
        run_on::<Sqlite>(args, url).await
    } else {
        Err("--database must begin with postgres:// or sqlite://".into())
    }
}

async fn run_on<DB: Engine>(args: &Args, url: &str) -> Result<bool, BoxError> {
    let pool = DB::open(url, args.clients).await?;
    let race = Race { stock: args.stock, attempts: args.attempts.unwrap_or(2 * args.stock), clients: args.clients };
    println!("{}: {} units, {} attempts by {} buyers", DB::NAME, race.stock, race.attempts, race.clients);
    let ran = ways::all(&pool, &race).await?;
    println!("{}", table(&ran));
    Ok(ran.iter().all(|ran| ran.is_wrong_by_design || ran.is_exact(&race)))
}

fn table(ran: &[Ran]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(["way", "attempts/s", "sold", "refused", "conflicts", "left", "oversold"]);
    for ran in ran {
        table.add_row([
            ran.way.to_owned(),
            format!("{:.0}", ran.per_second()),
            ran.sold.to_string(),
            ran.refused.to_string(),
            ran.conflicts.to_string(),
            ran.left.to_string(),
            ran.oversold.to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

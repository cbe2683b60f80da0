//! One row of stock, more buyers than units: the same decrement done wrong once and right five times.
//!
//! `cargo run --release --example stock -- --help` lists the options; README.md beside this file says what to look at.

mod combined;
mod engine;
mod fenced;
#[cfg(feature = "mysql")]
mod mariadb;
mod race;
mod retried;
mod table;
mod ways;

use std::process::ExitCode;

use clap::Parser;
use leastlock::occ::Stored;
use sqlx::{Postgres, Sqlite};

use crate::engine::Engine;
use crate::race::{BoxError, Race};
use crate::retried::Item;

/// Sells one item to more buyers than there are units, in six ways, and counts the sales of which the row does not know.
///
/// The first way is wrong on purpose: it reads the stock, and writes what it has computed. The others are a conditional
/// UPDATE, a locking read, a version column with retries, a combiner, and a lease whose token is checked.
///
/// Exit codes: 0 only the wrong way oversold, or none did; 1 a right way oversold or left a unit unsold; 2 bad arguments or
/// an unreachable server.
#[derive(Debug, Parser)]
#[command(name = "stock")]
struct Args {
    /// postgres://…, mysql://… (MariaDB; needs --features mysql) or sqlite://…; default: a temporary SQLite file. A table
    /// `stock_example` is made in it, and emptied
    #[arg(long, value_name = "URL")]
    database: Option<String>,

    /// Buyers at the same time; they share up to 32 connections, 8 on SQLite
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,

    /// Units of the item
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    stock: i64,

    /// Attempts to buy one unit, over all buyers; twice the stock by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=10_000_000))]
    attempts: Option<i64>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("breach: a way that must be right oversold, or left a unit unsold");
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("error: {}", whole(&*error));
            ExitCode::from(2)
        }
    }
}

async fn run(args: &Args) -> Result<bool, BoxError> {
    // Held to the end: the temporary file goes with it.
    let folder = tempfile::tempdir()?;
    let temporary = format!("sqlite://{}", folder.path().join("stock.sqlite").display());
    let url = args.database.as_deref().unwrap_or(&temporary);
    match url.split_once(':').map_or("", |(scheme, _)| scheme) {
        "postgres" | "postgresql" => run_on::<Postgres>(args, url).await,
        "sqlite" => run_on::<Sqlite>(args, url).await,
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => run_on::<sqlx::MySql>(args, url).await,
        #[cfg(not(feature = "mysql"))]
        "mysql" | "mariadb" => {
            Err("this build is without MySQL: cargo run --release --features mysql --example stock".into())
        }
        _ => Err("--database must begin with postgres://, mysql:// or sqlite://".into()),
    }
}

async fn run_on<DB: Engine>(args: &Args, url: &str) -> Result<bool, BoxError>
where
    Item: Stored<DB>,
{
    let race = Race { stock: args.stock, attempts: args.attempts.unwrap_or(2 * args.stock), clients: args.clients };
    let pool = DB::open(url, race.clients).await?;
    println!("{}: {} units, {} attempts by {} buyers", DB::CALLED, race.stock, race.attempts, race.clients);
    let tried = ways::all(&pool, &race).await?;
    println!("{}", table::table(&tried));
    Ok(ways::are_right_ways_exact(&tried, &race))
}

/// An error with its causes, in one line.
fn whole(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = String::new();
    for cause in std::iter::successors(Some(error), |error| error.source()) {
        let text = cause.to_string();
        // Many errors repeat their source's text at the end of their own.
        if !line.ends_with(&text) {
            line = if line.is_empty() { text } else { format!("{line}: {text}") };
        }
    }
    line.replace('\n', " ")
}

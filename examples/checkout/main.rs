//! Replays a day of orders against a shop that takes no lock, and proves that nothing was lost, doubled or turned round.
//!
//! `cargo run --release --example checkout -- --help` lists the options; README.md beside this file explains the parts.

mod args;
mod broker;
mod combined;
mod ended;
mod engine;
mod ledger;
mod orders;
mod reconciliation;
mod report;
mod run;
mod shop;
mod storm;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::ended::Ended;

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let args = match Args::try_parse() {
        Ok(args) => args,
        // Help and version are told in full, a mistake in one line.
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            eprintln!("{}", error.to_string().lines().next().unwrap_or("error: bad arguments"));
            return ExitCode::from(2);
        }
    };
    match run::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Ended::Breach(breaches)) => {
            for breach in breaches {
                eprintln!("breach: {breach}");
            }
            ExitCode::from(1)
        }
        Err(Ended::Refused(reason)) => {
            eprintln!("error: {reason}");
            ExitCode::from(2)
        }
    }
}

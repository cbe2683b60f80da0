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
    // A mistake is told in full, with what may have been meant, and ends with 2.
    let args = Args::parse();
    Ended::exit_code(run::run(&args))
}

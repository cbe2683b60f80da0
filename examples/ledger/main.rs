//! A ledger of accounts that takes no lock: one writer per account, an exactly-once effect, and a worker that is killed.
//!
//! `cargo run --release --example ledger -- --help` lists the options; README.md beside this file explains the parts.

mod args;
#[path = "../checkout/broker.rs"]
#[allow(dead_code, reason = "this example needs a part of it")]
mod broker;
#[path = "../checkout/ended.rs"]
mod ended;
mod engine;
mod entries;
mod ledger;
mod reconciliation;
mod report;
mod run;
mod worker;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::ended::Ended;

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    // A mistake is told in full, with what may have been meant, and ends with 2.
    let args = Args::parse();
    Ended::exit_code(match &args.command {
        None => run::run(&args),
        Some(Command::Worker(worker)) => worker::run(worker),
    })
}

//! Takes payments without a lock: order and stock in one transaction, the card provider as an external step, the notice by
//! outbox; and drives the whole with faults and kills, to prove that nobody is charged twice.
//!
//! `cargo run --release --example payments --features tower -- drive` runs it; README.md beside this file explains the parts.

mod args;
mod books;
mod drive;
#[path = "../checkout/ended.rs"]
mod ended;
mod engine;
mod provider;
mod service;
mod shutdown;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::ended::Ended;

/// What goes wrong inside a request.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    // A mistake is told in full, with what may have been meant, and ends with 2.
    let args = Args::parse();
    let ended = match tokio::runtime::Runtime::new() {
        Ok(runtime) => {
            let ended = runtime.block_on(async {
                match args.command {
                    Command::Serve(args) => service::serve(args).await,
                    Command::Provider(args) => provider::serve(args).await,
                    Command::Drive(args) => drive::drive(args).await,
                    Command::Report(args) => books::report(&args).await,
                }
            });
            // A read of stdin may be under way in a thread, which nothing but its end would end.
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(Ended::refused("no runtime", &error)),
    };
    Ended::exit_code(ended)
}

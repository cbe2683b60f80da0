//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// Writes a report a month to a file, under a lease, and stops the process that writes it.
///
/// Worker `a` takes the lease, reads the bookings and writes its draft. Before it publishes, it is stopped with SIGSTOP for longer than
/// its lease lasts. Meanwhile another booking comes in, and worker `b` takes over and publishes. Then `a` goes on, and publishes
/// what it has in hand, if it is let. At the end the published reports are compared with the bookings.
///
/// Exit codes: 0 all is well; 1 a late report stands over a newer one; 2 bad arguments or an unreachable server.
#[derive(Debug, Parser)]
#[command(name = "report", args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// postgres://… or sqlite://…, a database of the report's own: what an earlier run left there is deleted; default: a temporary
    /// SQLite file
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,

    /// Where the reports go; default: a temporary folder
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,

    /// How many months there are
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=12))]
    pub(crate) months: u32,

    /// How many bookings a month has
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) bookings: u32,

    /// The TTL of the lease, which a stopped worker outlasts
    #[arg(long, value_name = "MS", default_value_t = 1_500, value_parser = clap::value_parser!(u32).range(500..=60_000))]
    pub(crate) ttl_ms: u32,

    /// Publish without asking the resource, to see what the fence is for: the run ends with 1
    #[arg(long)]
    pub(crate) unfenced: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// One of the workers; the report starts them. It ends when its standard input does.
    #[command(hide = true)]
    Worker(WorkerArgs),
}

/// What a worker is told.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WorkerArgs {
    #[arg(long)]
    pub(crate) name: String,
    #[arg(long)]
    pub(crate) database: String,
    #[arg(long)]
    pub(crate) folder: PathBuf,
    #[arg(long)]
    pub(crate) ttl_ms: u32,
    /// `true` or `false`.
    #[arg(long, action = clap::ArgAction::Set)]
    pub(crate) unfenced: bool,
}

impl WorkerArgs {
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(u64::from(self.ttl_ms))
    }
}

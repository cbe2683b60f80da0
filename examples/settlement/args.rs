//! The command line.

use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

/// Settles what merchants have sold, once a day, on two machines at the same time.
///
/// Each day's batch is started by two worker processes at once, as two machines with the same timetable do. It pays every merchant in
/// one transaction, and marks the day as settled in it. One worker is killed with SIGKILL right after it has committed a day, another
/// time in the middle of its transaction, and each time that day's batch is started again. At the end the payouts are compared
/// with the sales.
///
/// Exit codes: 0 all is well; 1 a day was settled twice or not at all; 2 bad arguments or an unreachable server.
#[derive(Debug, Parser)]
#[command(name = "settlement", args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// postgres://… or sqlite://…, a database of the settlement's own: what an earlier run left there is deleted; default: a temporary
    /// SQLite file
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,

    /// How many days there are; the batches of the second and of the fourth meet a kill
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(4..=28))]
    pub(crate) days: u32,

    /// How many merchants there are
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) merchants: u32,

    /// How many sales a merchant has in a day
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) sales: u32,

    /// The TTL of the lease, after which a killed worker keeps nobody out
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(500..=60_000))]
    pub(crate) ttl_ms: u32,

    /// Make a classic mistake, to see what the mark is for: the run ends with 1
    #[arg(long, value_name = "MISTAKE")]
    pub(crate) mistake: Option<Mistake>,
}

/// How not to do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mistake {
    /// A lease, and no mark: it ends, and knows of no day that is settled.
    LeaseAlone,
    /// The mark is written after the commit of the work, in a transaction of its own.
    MarkAfter,
    /// The mark is written before the work, in a transaction of its own.
    MarkBefore,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// One of the machines; the settlement starts them. It ends when its standard input does.
    #[command(hide = true)]
    Worker(WorkerArgs),
}

/// What a worker is told.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WorkerArgs {
    /// What its payouts are signed with.
    #[arg(long)]
    pub(crate) name: String,
    #[arg(long)]
    pub(crate) database: String,
    #[arg(long)]
    pub(crate) ttl_ms: u32,
    #[arg(long)]
    pub(crate) mistake: Option<Mistake>,
}

impl WorkerArgs {
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(u64::from(self.ttl_ms))
    }
}

//! The command line.

use std::time::Duration;

use clap::{Parser, Subcommand};

/// Keeps a ledger of accounts without a lock, and kills one of its two workers.
///
/// Deposits and withdrawals go to Kafka, keyed by their account. Two worker processes share the partitions, and post each entry
/// exactly once, in the transaction that moves the balance; a withdrawal that the balance does not cover is refused, so the order
/// of an account's entries decides what becomes of them. One of the workers is killed with SIGKILL in the middle. At the end the ledger is
/// compared with the entries, as they were produced.
///
/// Exit codes: 0 all is well; 1 an entry was lost, posted twice, out of order or decided otherwise, or the ledger stands still;
/// 2 bad arguments or an unreachable server.
#[derive(Debug, Parser)]
#[command(name = "ledger", args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// postgres://… or sqlite://…, a database of the ledger's own: what an earlier run left there is deleted; default: a
    /// temporary SQLite file
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,

    /// Kafka brokers, host:port,…; default: a mock cluster in this process, which the workers reach over TCP
    #[arg(long, value_name = "LIST")]
    pub(crate) brokers: Option<String>,

    /// How many accounts there are
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) accounts: u32,

    /// How many entries they have in all
    #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) entries: u32,

    /// Entries a second, once both workers have posted some
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,

    /// A worker is killed when so many hundredths of the entries are posted; 100: none is
    #[arg(long, value_name = "PERCENT", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) kill_at: u32,

    /// After so many milliseconds of silence a worker's partitions are another's; brokers have a least value, 6,000 by default
    #[arg(long, value_name = "MS", default_value_t = 6_000, value_parser = clap::value_parser!(u32).range(1_000..=60_000))]
    pub(crate) session_ms: u32,

    /// Post without the fence, at least once, to see what the fence is for: the run ends with 1
    #[arg(long)]
    pub(crate) unfenced: bool,

    /// Decides the entries; default: drawn and printed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// One of the workers; the ledger starts them. It ends when its standard input does.
    #[command(hide = true)]
    Worker(WorkerArgs),
}

/// What a worker is told.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WorkerArgs {
    /// What its postings are signed with.
    #[arg(long)]
    pub(crate) name: String,
    #[arg(long)]
    pub(crate) database: String,
    #[arg(long)]
    pub(crate) brokers: String,
    /// Also the name of the consumer group.
    #[arg(long)]
    pub(crate) topic: String,
    #[arg(long)]
    pub(crate) session_ms: u32,
    #[arg(long)]
    pub(crate) unfenced: bool,
}

impl Args {
    /// How long a dead worker's partitions stay with it.
    pub(crate) fn session(&self) -> Duration {
        Duration::from_millis(u64::from(self.session_ms))
    }
}

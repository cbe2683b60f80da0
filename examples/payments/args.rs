//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Takes payments without a lock, and proves that nobody is charged twice.
///
/// Exit codes: 0 all is well; 1 a charge was doubled or lost, stock does not add up, an event is missing or doubled, a server
/// ended by itself, or a payment had no answer for three minutes; 2 bad arguments, an unreachable server, or a database that is in use.
#[derive(Debug, Parser)]
#[command(name = "payments")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The service: POST /payments with an Idempotency-Key, GET /orders/{id}
    Serve(Serve),
    /// The card provider, with a ledger of its own
    Provider(Provider),
    /// Starts both, sends payments with repeats and faults, kills the service at random moments, and checks the books
    Drive(Drive),
    /// Checks the books of a service that stands still against the provider's ledger
    Report(Report),
}

/// What is done about a charge whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    /// Call again with the same key: right if the provider deduplicates
    Retry,
    /// Ask the provider what became of it
    Reconcile,
    /// Leave it to the reconciler, or to an operator
    Hold,
}

impl Policy {
    /// As it is written on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Reconcile => "reconcile",
            Self::Hold => "hold",
        }
    }
}

/// A classic mistake, made on purpose so that the report can be seen to find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mistake {
    /// A fresh provider key for each attempt.
    NewKeyPerAttempt,
    /// What the provider has not seen when it is asked counts as not done, though the call may still be under way.
    BelieveNotSeen,
}

impl Mistake {
    /// As it is written on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NewKeyPerAttempt => "new-key-per-attempt",
            Self::BelieveNotSeen => "believe-not-seen",
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Where to listen; port 0 takes a free one, which is printed
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,

    /// postgres://… or sqlite://…
    #[arg(long, value_name = "URL", default_value = "sqlite://payments.sqlite")]
    pub(crate) database: String,

    /// The provider's address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8090")]
    pub(crate) provider: String,

    /// What is done about a charge whose outcome is unknown
    #[arg(long, value_enum, default_value_t = Policy::Reconcile)]
    pub(crate) policy: Policy,

    /// Kafka brokers to publish to, host:port,…
    #[arg(long, value_name = "LIST", conflicts_with = "events")]
    pub(crate) brokers: Option<String>,

    /// The topic; it begins with `payments`
    #[arg(long, value_name = "NAME", default_value = "payments", value_parser = topic)]
    pub(crate) topic: String,

    /// File to publish to instead, a line for each event; default: memory
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,

    /// Items for sale, `item-0` and so on
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) items: u32,

    /// Units of each item, when it is first put on sale
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(i64).range(0..=1_000_000_000))]
    pub(crate) opening_stock: i64,

    /// Payments at work at the same time; beyond it 503
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) max_payments: u16,

    /// How long a claim stands without a renewal: after a crash, the time until the next request goes on
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(500..=600_000))]
    pub(crate) lease_ms: u64,

    /// How long a call to the provider may take, and how long the provider may act on it
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    pub(crate) call_limit_ms: u64,

    /// End when stdin is closed, as it is when the process that started this one has ended
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,

    /// A mistake that the report must find
    #[arg(long, value_enum, hide = true)]
    pub(crate) mistake: Option<Mistake>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Provider {
    /// Where to listen; port 0 takes a free one, which is printed
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    pub(crate) listen: SocketAddr,

    /// The ledger, an SQLite file
    #[arg(long, value_name = "FILE", default_value = "ledger.sqlite")]
    pub(crate) ledger: PathBuf,

    /// Charge for each call, also when its key was seen before
    #[arg(long)]
    pub(crate) charge_every_call: bool,

    /// How long a slow answer takes
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(0..=600_000))]
    pub(crate) slow_ms: u64,

    /// End when stdin is closed
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Drive {
    /// Payments
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) payments: u32,

    /// Times that each is sent, concurrently
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) duplicates: u16,

    /// Clients that send at the same time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) clients: u16,

    /// Times that the service is killed (SIGKILL) at work, and started again
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(0..=100))]
    pub(crate) kills: u16,

    /// Times that it is stopped (SIGSTOP) until another has its keys, and then goes on; default: 2, on SQLite none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=100))]
    pub(crate) stops: Option<u16>,

    /// postgres://… or sqlite://…, a database without payments; default: a temporary SQLite file
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,

    /// What the service does about a charge whose outcome is unknown
    #[arg(long, value_enum, default_value_t = Policy::Reconcile)]
    pub(crate) policy: Policy,

    /// Have the provider charge for each call, also when its key was seen before
    #[arg(long)]
    pub(crate) charge_every_call: bool,

    /// Units of each of the ten items
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(i64).range(0..=1_000_000_000))]
    pub(crate) opening_stock: i64,

    /// Decides what is bought with which card, and when the service is killed; default: drawn; printed first
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Kafka brokers for the service to publish to, host:port,…, to a topic of the drive's own; default: a file
    #[arg(long, value_name = "LIST")]
    pub(crate) brokers: Option<String>,

    /// Keep the provider's ledger, the events, and the SQLite database there; default: a temporary folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,

    /// A mistake of the service that the report must find
    #[arg(long, value_enum, hide = true)]
    pub(crate) mistake: Option<Mistake>,
}

/// The report tells the service's events in the outbox by their topic.
fn topic(name: &str) -> Result<String, &'static str> {
    if name.starts_with("payments") { Ok(name.to_owned()) } else { Err("it begins with `payments`") }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Report {
    /// The service's database
    #[arg(long, value_name = "URL", default_value = "sqlite://payments.sqlite")]
    pub(crate) database: String,

    /// The provider's ledger
    #[arg(long, value_name = "FILE", default_value = "ledger.sqlite")]
    pub(crate) ledger: PathBuf,

    /// The file that the service published to, if it was started with one
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
}

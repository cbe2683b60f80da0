//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Replays a day of orders against a shop that takes no lock.
///
/// Each order is sent several times at once, with its invoice number as idempotency key. Stock goes down by conditional
/// UPDATE; order and events commit in one transaction; a relay publishes the events to Kafka; a worker with one writer per
/// stock code builds the ledger, each event exactly once. The run ends with a reconciliation.
///
/// Exit codes: 0 all is well; 1 a unit was lost, sold twice or applied out of order, or the ledger stands still; 2 bad
/// arguments, an unreadable file, an unreachable server, or a database that belongs to another run.
#[derive(Debug, Parser)]
#[command(name = "checkout")]
pub(crate) struct Args {
    /// CSV file of orders (InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country); default: a
    /// bundled sample
    #[arg(long, value_name = "FILE")]
    pub(crate) orders: Option<PathBuf>,

    /// postgres://… or sqlite://…, a database of the checkout's own; default: a temporary SQLite file
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,

    /// Kafka brokers, host:port,…; default: an in-process mock cluster
    #[arg(long, value_name = "LIST")]
    pub(crate) brokers: Option<String>,

    /// Clients that send orders at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) clients: u16,

    /// Times that each order is sent, concurrently
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) duplicates: u16,

    /// Units of each stock code before the day begins
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(i64).range(0..=1_000_000_000_000))]
    pub(crate) opening_stock: i64,

    /// Write the ledger there as CSV: `stock_code,units_out,units_back,remaining`
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: Option<PathBuf>,

    /// Decides the order in which requests are sent; default: drawn and printed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Place orders through a combiner: many in one transaction, each with its invoice number as order id. The plain form runs
    /// first, on the same orders in an empty place of its own, and the rates of both are printed
    #[arg(long)]
    pub(crate) combine: bool,

    /// Only the combined form, and no rate beside it
    #[arg(long, requires = "combine")]
    pub(crate) without_plain: bool,

    /// Forget the checkout that the database holds, and begin anew
    #[arg(long)]
    pub(crate) fresh: bool,
}

//! A run: the database it belongs to, and its day, in one form or in both.

use std::fs::File;
use std::sync::Arc;

use leastlock::{idempotency, occ, outbox, partition_worker};
use sqlx::{Pool, Postgres, Sqlite};
use tokio::runtime::Runtime;

use crate::args::Args;
use crate::broker::Broker;
use crate::combined;
use crate::ended::Ended;
use crate::engine::{Engine, Pools};
use crate::orders::OrderBook;
use crate::report::Plain;
use crate::run::day::{Day, Finished};

mod belonging;
mod day;
mod office;

/// How orders are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Each in a transaction of its own.
    Plain,
    /// Many in one transaction.
    Combined,
}

impl Form {
    /// What a database remembers of it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Combined => "combined",
        }
    }
}

/// Runs a day.
pub(crate) fn run(args: &Args) -> Result<(), Ended> {
    let orders = Arc::new(OrderBook::read(args.orders.as_deref())?);
    if args.combine {
        combined::check(&orders)?;
    }
    // Made before anything is placed, so that a wrong path is a mistake in the arguments.
    let ledger = args.ledger.as_deref().map(File::create).transpose();
    let ledger = ledger.map_err(|error| Ended::refused("cannot write the file of --ledger", &error))?;
    let runtime = Runtime::new().map_err(|error| Ended::refused("no runtime", &error))?;
    // Held to the end: the temporary file goes with it.
    let folder = tempfile::tempdir().map_err(|error| Ended::refused("no temporary folder", &error))?;
    let temporary = format!("sqlite://{}", folder.path().join("checkout.sqlite").display());
    let url = args.database.as_deref().unwrap_or(&temporary);
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        run_on::<Postgres>(args, url, &orders, ledger, &runtime)
    } else if url.starts_with("sqlite:") {
        run_on::<Sqlite>(args, url, &orders, ledger, &runtime)
    } else {
        Err(Ended::Refused("--database must begin with postgres:// or sqlite://".to_owned()))
    }
}

fn run_on<DB: Engine>(
    args: &Args,
    url: &str,
    orders: &Arc<OrderBook>,
    ledger: Option<File>,
    runtime: &Runtime,
) -> Result<(), Ended> {
    let pools = runtime.block_on(DB::open(url, u32::from(args.clients)));
    let pools = pools.map_err(|error| Ended::refused(&format!("cannot reach the database {}", place(url)), &error))?;
    let broker = Broker::open(args.brokers.as_deref())?;
    let form = if args.combine { Form::Combined } else { Form::Plain };
    let run_id = runtime.block_on(belonging::belong(&pools.back_office, args, orders, (broker.name(), form)))?;
    let day = Day { args, orders, seed: args.seed.unwrap_or_else(|| fastrand::u64(..=u64::from(u32::MAX))), form };
    let plain =
        if args.combine && !args.without_plain { plain_form(&day, url, &pools, &broker, runtime)? } else { None };

    let Finished { books, mut breaches, report } = day.run(&pools, &broker, &run_id, runtime)?;
    println!("{}", report.table(plain));
    if let Some(too_short) = report.too_short(plain) {
        println!("{too_short}");
    }
    if breaches.is_empty() {
        println!(
            "reconciled: opening - out + back = remaining, in the shop and in the ledger; no order twice; every \
             sequence whole"
        );
    }
    if let Some(file) = ledger {
        let wrote = books.write_ledger(file);
        breaches.extend(wrote.err().map(|error| format!("the ledger could not be written: {error}")));
    }
    if breaches.is_empty() { Ok(()) } else { Err(Ended::Breach(breaches)) }
}

/// What the plain form comes to: the same day, from the beginning to the reconciliation, in an empty place beside the
/// database. None if the combined run was begun earlier, since what is left of it is no day to compare.
fn plain_form<DB: Engine>(
    day: &Day<'_>,
    url: &str,
    pools: &Pools<DB>,
    broker: &Broker,
    runtime: &Runtime,
) -> Result<Option<Plain>, Ended> {
    let refused = |error: sqlx::Error| Ended::refused("the plain form's place beside the database", &error);
    if runtime.block_on(combined::answered(&pools.back_office)).map_err(refused)? > 0 {
        println!("gone on with: the plain form is not run beside a day that was begun earlier");
        return Ok(None);
    }
    let (pools, aside) = runtime.block_on(DB::open_aside(url, u32::from(day.args.clients))).map_err(refused)?;
    let plain = Day { form: Form::Plain, ..*day };
    let belonging = belonging::belong(&pools.back_office, day.args, day.orders, (broker.name(), plain.form));
    let run_id = runtime.block_on(belonging)?;
    let Finished { breaches, report, .. } = plain.run(&pools, broker, &run_id, runtime)?;
    if !breaches.is_empty() {
        return Err(Ended::Breach(breaches.into_iter().map(|breach| format!("the plain form: {breach}")).collect()));
    }
    let came_to = report.as_plain();
    let rate = came_to.requests_a_second;
    println!("the plain form, first: {} requests answered, {rate:.0} a second; reconciled", report.answered());
    broker.delete_topic(&day::topic(&run_id), runtime);
    runtime.block_on(async {
        pools.close().await;
        DB::end(aside).await.map_err(refused)
    })?;
    Ok(Some(came_to))
}

/// Where a database is, without the password.
fn place(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, place)| place)
}

/// Applies every table that the run needs.
async fn migrate<DB: Engine>(pool: &Pool<DB>) -> Result<(), leastlock::core::MigrationError> {
    idempotency::MIGRATIONS.run(pool).await?;
    occ::MIGRATIONS.run(pool).await?;
    outbox::MIGRATIONS.run(pool).await?;
    partition_worker::MIGRATIONS.run(pool).await?;
    crate::shop::MIGRATIONS.run(pool).await
}

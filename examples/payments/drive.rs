//! The drive: starts provider and service, sends payments with repeats and faults, kills the service, checks the books.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leastlock::core::Statement;
use sqlx::{Pool, Postgres, Sqlite};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::args::Drive;
use crate::books::{Arrivals, Books};
use crate::drive::clients::Clients;
use crate::drive::keeper::{Kept, keep};
use crate::drive::plan::{Payment, plan};
use crate::drive::report::{Driven, bar};
use crate::drive::server::Server;
use crate::ended::Ended;
use crate::engine::{Engine, Known, place};
use crate::provider::ledger::Ledger;

mod clients;
mod keeper;
mod plan;
mod report;
mod server;
mod topic;

pub(crate) const ITEMS: u32 = 10;
/// Short, so that a key whose owner was killed goes on soon.
const LEASE_MS: &str = "2000";
/// Slow answers outlast the limit of a call, so that they count as none.
const CALL_LIMIT_MS: &str = "500";
const SLOW_MS: &str = "900";
/// How long the relay may stand still before the run counts as stuck.
const STANDSTILL: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(100);

const IN_USE: &str = "SELECT (SELECT count(*) FROM payment_order) \
    + (SELECT count(*) FROM leastlock_idempotency WHERE scope LIKE 'shop/%/pay')";
const EVENTS: &str = "SELECT count(*) FROM leastlock_outbox WHERE topic LIKE 'payments%'";

/// Drives.
pub(crate) async fn drive(args: Drive) -> Result<(), Ended> {
    // Held to the end: the temporary files go with it.
    let temporary = tempfile::tempdir().map_err(|error| Ended::refused("no temporary folder", &error))?;
    let folder = args.folder.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder).map_err(|error| Ended::refused("cannot make the folder", &error))?;
    let files = Files {
        ledger: folder.join("ledger.sqlite"),
        arrivals: topic::arrivals(args.brokers.as_deref(), folder).await?,
    };
    if files.ledger.exists() {
        return Err(Ended::Refused(format!(
            "{} is there already; a drive needs a ledger of its own",
            files.ledger.display()
        )));
    }
    let embedded = format!("sqlite://{}", folder.join("payments.sqlite").display());
    let url = args.database.clone().unwrap_or(embedded);
    match Known::of(&url) {
        Some(Known::Postgres) => drive_on::<Postgres>(&args, &url, &files).await,
        Some(Known::Sqlite) => drive_on::<Sqlite>(&args, &url, &files).await,
        None => Err(Ended::Refused("--database must begin with postgres:// or sqlite://".to_owned())),
    }
}

/// What the children write to.
struct Files {
    ledger: PathBuf,
    arrivals: Arrivals,
}

async fn drive_on<DB: Engine>(args: &Drive, url: &str, files: &Files) -> Result<(), Ended> {
    let begun = Instant::now();
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..=u64::from(u32::MAX)));
    let stops = stops(args, url)?;
    // Before anything happens: a run that is killed is to be repeatable too. A pipe that is closed is no reason to stop.
    let _ = writeln!(std::io::stdout(), "seed {seed}");
    let pools = DB::open(url).await;
    let pools = pools.map_err(|error| Ended::refused(&format!("cannot reach the database {}", place(url)), &error))?;
    let provider = Server::start(&provider_arguments(args, files)).await?;
    let arguments = service_arguments(args, url, files, &provider.address);
    let service = Server::start(&arguments).await?;
    unused(&pools.back_office).await?;

    let payments: Arc<[Payment]> = plan(args.payments, seed).into();
    let copies = u64::from(args.payments) * u64::from(args.duplicates);
    let (address, addresses) = watch::channel(service.address.clone());
    let clients = Arc::new(Clients::new(Arc::clone(&payments), addresses, bar(copies))?);
    let done = CancellationToken::new();
    let blows = keeper::moments(args.kills, stops, copies, seed);
    let keeper = keep(&pools.back_office, service, &arguments, blows, (clients.answered(), address, done.clone()));
    let storm = async {
        let stormed = clients.rage(args.clients, args.duplicates, seed).await;
        done.cancel();
        stormed
    };
    // Both end together: the keeper when the clients are answered, the clients (with an error) when the service is gone.
    let (kept, stormed) = tokio::try_join!(keeper, storm)?;
    let Kept { service, blows } = kept;
    let () = stormed;
    clients.bar.finish_and_clear();
    let stormed_for = begun.elapsed();
    everything_published(&pools.back_office, &files.arrivals).await?;
    service.end("service").await?;
    provider.end("provider").await?;

    let ledger = Ledger::open(&files.ledger, true).await.map_err(|error| Ended::refused("the ledger", &error))?;
    let books = Books::read(&pools.back_office, &ledger, Some(&files.arrivals)).await;
    let books = books.map_err(|error| Ended::refused("the books cannot be read", &*error))?;
    let driven = Driven { args, seed, clients: &clients, books: &books, blows, stormed_for, took: begun.elapsed() };
    println!("{}", driven.table());
    let mut breaches = clients.breaches(&books);
    breaches.extend(books.breaches());
    if !breaches.is_empty() {
        return Err(Ended::Breach(breaches));
    }
    println!(
        "reconciled: every key came to an end; one charge for each paid order and none for a cancelled one; units in stock \
         and in paid orders are the opening; one event for each order, and it arrived"
    );
    Ok(())
}

/// Two by default, where that is possible.
fn stops(args: &Drive, url: &str) -> Result<u16, Ended> {
    match (args.stops, Known::of(url)) {
        (Some(1..), Some(Known::Sqlite)) => {
            let reason = "--stops needs PostgreSQL: on SQLite a stopped writer keeps the one write lock of the file";
            Err(Ended::Refused(reason.to_owned()))
        }
        (stops, Some(Known::Postgres)) => Ok(stops.unwrap_or(2)),
        _ => Ok(0),
    }
}

fn provider_arguments(args: &Drive, files: &Files) -> Vec<String> {
    let ledger = files.ledger.display().to_string();
    let mut arguments = owned(&["provider", "--listen", "127.0.0.1:0", "--ledger", &ledger, "--slow-ms", SLOW_MS]);
    arguments.push("--until-stdin-closes".to_owned());
    if args.charge_every_call {
        arguments.push("--charge-every-call".to_owned());
    }
    arguments
}

fn service_arguments(args: &Drive, url: &str, files: &Files, provider: &str) -> Vec<String> {
    let mut arguments = owned(&["serve", "--listen", "127.0.0.1:0", "--database", url, "--provider", provider]);
    arguments.extend(owned(&["--policy", args.policy.name(), "--items", &ITEMS.to_string()]));
    arguments.extend(owned(&["--opening-stock", &args.opening_stock.to_string()]));
    arguments.extend(owned(&["--lease-ms", LEASE_MS, "--call-limit-ms", CALL_LIMIT_MS, "--until-stdin-closes"]));
    match &files.arrivals {
        Arrivals::File(file) => arguments.extend(owned(&["--events", &file.display().to_string()])),
        Arrivals::Topic { brokers, topic } => arguments.extend(owned(&["--brokers", brokers, "--topic", topic])),
    }
    if let Some(mistake) = args.mistake {
        arguments.extend(owned(&["--mistake", mistake.name()]));
    }
    arguments
}

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|&argument| argument.to_owned()).collect()
}

/// The books are to be this drive's alone.
async fn unused<DB: Engine>(pool: &Pool<DB>) -> Result<(), Ended> {
    let refused = |error: sqlx::Error| Ended::refused("the database cannot be read", &error);
    let mut connection = pool.acquire().await.map_err(refused)?;
    let rows = Statement::new(IN_USE).fetch_one::<DB>(&mut connection).await.and_then(|row| row.int(0));
    match rows.map_err(refused)? {
        0 => Ok(()),
        _ => Err(Ended::Refused("the database has payments already; a drive needs one without".to_owned())),
    }
}

/// Waits until what was appended has arrived.
async fn everything_published<DB: Engine>(pool: &Pool<DB>, arrivals: &Arrivals) -> Result<(), Ended> {
    let refused = |error: sqlx::Error| Ended::refused("the outbox cannot be read", &error);
    let (mut arrived, mut moved_at) = (0, Instant::now());
    loop {
        let mut connection = pool.acquire().await.map_err(refused)?;
        let events = Statement::new(EVENTS).fetch_one::<DB>(&mut connection).await.and_then(|row| row.int(0));
        let events = events.map_err(refused)?;
        drop(connection);
        let seen = arrivals.read().await.map_err(|error| Ended::refused("the events", &*error))?.len();
        if i64::try_from(seen).is_ok_and(|seen| seen >= events) {
            return Ok(());
        }
        if seen != arrived {
            (arrived, moved_at) = (seen, Instant::now());
        } else if moved_at.elapsed() > STANDSTILL {
            return Err(Ended::Breach(vec![format!("the relay stands still at {arrived} of {events} events")]));
        }
        tokio::time::sleep(LOOK).await;
    }
}

//! One run: the database it belongs to, the shop, the relay, the worker, the end of the day.

use std::fs::File;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use leastlock::core::Statement;
use leastlock::outbox::{KafkaSink, Outbox, Relay, Stats};
use leastlock::partition_worker::{self, Effect, Worker};
use leastlock::{idempotency, outbox};
use rdkafka::ClientConfig;
use sqlx::{Pool, Postgres, Sqlite};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::broker::Broker;
use crate::ended::Ended;
use crate::engine::{Engine, Pools};
use crate::ledger::{Ledger, OutOfOrder};
use crate::orders::OrderBook;
use crate::reconciliation::Books;
use crate::report::{Bars, Day};
use crate::shop::Shop;
use crate::storm::{self, Storm};

mod belonging;

/// How long the ledger may stand still before the run counts as stuck. A killed predecessor keeps its partitions for the
/// session time-out and its shards for the lease.
const STANDSTILL: Duration = Duration::from_mins(2);
/// How often the books are looked at while they fill.
const LOOK: Duration = Duration::from_millis(200);
/// Short, so that a run that was killed goes on soon after it is started again.
const RELAY_LEASE: Duration = Duration::from_secs(3);
const SESSION_TIMEOUT_MS: &str = "6000";
const HEARTBEAT_MS: &str = "1000";

const APPENDED: &str = "SELECT CAST(COALESCE(SUM(moves), 0) AS BIGINT) FROM shop_stock";
const IN_LEDGER: &str = "SELECT CAST(COALESCE(SUM(last_sequence), 0) AS BIGINT) FROM ledger";

/// Runs a day.
pub(crate) fn run(args: &Args) -> Result<(), Ended> {
    let orders = Arc::new(OrderBook::read(args.orders.as_deref())?);
    // Made before anything is placed, so that a wrong path is a mistake in the arguments.
    let ledger = args.ledger.as_deref().map(File::create).transpose();
    let ledger = ledger.map_err(|error| Ended::refused("cannot write the file of --ledger", &error))?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Ended::refused("no runtime", &error))?;
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
    runtime: &tokio::runtime::Runtime,
) -> Result<(), Ended> {
    let pools = runtime.block_on(DB::open(url, u32::from(args.clients)));
    let pools = pools.map_err(|error| Ended::refused(&format!("cannot reach the database {}", place(url)), &error))?;
    let broker = Broker::open(args.brokers.as_deref())?;
    let run_id = runtime.block_on(belonging::belong(&pools.back_office, args, orders, broker.name()))?;
    let topic = format!("checkout-{run_id}");
    broker.make_topic(&topic, runtime)?;
    let (books, mut breaches) = runtime.block_on(day(args, &pools, orders, &broker.bootstrap(), &topic))?;
    if let Some(file) = ledger {
        let wrote = books.write_ledger(file);
        breaches.extend(wrote.err().map(|error| format!("the ledger could not be written: {error}")));
    }
    if breaches.is_empty() { Ok(()) } else { Err(Ended::Breach(breaches)) }
}

/// Where a database is, without the password.
fn place(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, place)| place)
}

async fn day<DB: Engine>(
    args: &Args,
    pools: &Pools<DB>,
    orders: &Arc<OrderBook>,
    brokers: &str,
    topic: &str,
) -> Result<(Books, Vec<String>), Ended> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..=u64::from(u32::MAX)));
    let outbox = Outbox::open(&pools.back_office).await.map_err(|error| Ended::refused("the outbox", &error))?;
    let shop = Arc::new(Shop::open(pools.clients.clone(), outbox.clone(), topic)?);
    let mut office = BackOffice::open(&pools.back_office, &outbox, brokers, topic)?;
    let storm = Arc::new(Storm::default());
    let bars = Bars::new(orders.orders.len() as u64 * u64::from(args.duplicates));

    let begun = Instant::now();
    let clients = storm::rage(&shop, orders, &storm, (args.clients, args.duplicates, seed));
    let placed = async { clients.await.map(|()| begun.elapsed()) };
    let clients_took = office.watch(&pools.back_office, &storm, &bars, placed).await;
    bars.clear();
    let clients_took = clients_took?;
    office.close().await?;

    let books = Books::read(&pools.back_office).await.map_err(|error| Ended::refused("the books", &error))?;
    let receipts = storm.receipts.lock().unwrap_or_else(PoisonError::into_inner);
    let (relay, ledger, took) = (&office.relay_stats, &office.ledger, begun.elapsed());
    let (storm_ref, books_ref) = (&*storm, &books);
    let day = Day {
        orders,
        storm: storm_ref,
        receipts: &receipts,
        books: books_ref,
        relay,
        ledger,
        clients_took,
        took,
        seed,
    };
    println!("{}", day.table());
    let mut breaches = storm.breaches();
    breaches.extend(books.breaches(orders, &receipts));
    if breaches.is_empty() {
        println!(
            "reconciled: opening - out + back = remaining, in the shop and in the ledger; no order twice; every \
             sequence whole"
        );
    }
    drop(receipts);
    Ok((books, breaches))
}

/// The relay and the worker, at work.
struct BackOffice {
    relay: Option<JoinHandle<Result<outbox::Summary, outbox::Error>>>,
    worker: Option<JoinHandle<Result<partition_worker::Summary, partition_worker::Error>>>,
    relay_stats: Stats,
    ledger: Ledger,
    shutdown: CancellationToken,
}

impl BackOffice {
    fn open<DB: Engine>(pool: &Pool<DB>, outbox: &Outbox, brokers: &str, topic: &str) -> Result<Self, Ended> {
        let shutdown = CancellationToken::new();
        let mut producer = ClientConfig::new();
        producer.set("bootstrap.servers", brokers);
        let sink = KafkaSink::new(producer).map_err(|error| Ended::refused("the relay's sink", &error))?;
        let relay = Relay::builder(pool, sink).lease(RELAY_LEASE).woken_by(outbox.wake()).build();
        let relay = relay.map_err(|error| Ended::refused("the relay", &error))?;
        let mut consumer = ClientConfig::new();
        consumer
            .set("bootstrap.servers", brokers)
            .set("group.id", topic)
            .set("session.timeout.ms", SESSION_TIMEOUT_MS)
            .set("heartbeat.interval.ms", HEARTBEAT_MS);
        let worker = Worker::builder(consumer).topic(topic).effect(Effect::in_database(pool)).concurrency(DB::HANDLERS);
        let worker = worker.build().map_err(|error| Ended::refused("the worker", &error))?;
        let (relay_stats, ledger) = (relay.stats(), Ledger::default());
        Ok(Self {
            relay: Some(tokio::spawn(relay.run(shutdown.clone()))),
            worker: Some(tokio::spawn(worker.run(ledger.clone(), shutdown.clone()))),
            relay_stats,
            ledger,
            shutdown,
        })
    }

    /// Waits until the clients are answered and every event that they caused is in the ledger.
    async fn watch<DB: Engine>(
        &mut self,
        pool: &Pool<DB>,
        storm: &Storm,
        bars: &Bars,
        clients: impl Future<Output = Result<Duration, Ended>>,
    ) -> Result<Duration, Ended> {
        tokio::pin!(clients);
        let (mut clients_took, mut books, mut moved_at) = (None, [0, 0], Instant::now());
        loop {
            tokio::select! {
                took = &mut clients, if clients_took.is_none() => clients_took = Some(took?),
                ended = self.ended() => return Err(ended),
                () = tokio::time::sleep(LOOK) => {}
            }
            let seen = sums(pool).await.map_err(|error| Ended::refused("the books cannot be read", &error))?;
            bars.show(storm, &self.relay_stats, seen);
            if seen != books || clients_took.is_none() {
                (books, moved_at) = (seen, Instant::now());
            }
            match clients_took {
                Some(took) if seen[0] == seen[1] => return Ok(took),
                _ if moved_at.elapsed() > STANDSTILL => {
                    let [appended, in_ledger] = seen;
                    let breach = format!("the ledger stands still at {in_ledger} of {appended} events");
                    return Err(Ended::Breach(vec![breach]));
                }
                _ => {}
            }
        }
    }

    /// Resolves if the relay or the worker ends before it was told to; then why.
    async fn ended(&mut self) -> Ended {
        let (Some(relay), Some(worker)) = (&mut self.relay, &mut self.worker) else {
            return std::future::pending().await;
        };
        tokio::select! {
            relay = relay => match relay {
                Ok(Ok(_)) => Ended::Breach(vec!["the relay ended before the day did".to_owned()]),
                Ok(Err(error)) => Ended::refused("the relay stopped", &error),
                Err(panic) => Ended::Breach(vec![format!("the relay panicked: {panic}")]),
            },
            worker = worker => match worker {
                Ok(Ok(_)) => Ended::Breach(vec!["the worker ended before the day did".to_owned()]),
                Ok(Err(error)) => worker_ended(&error),
                Err(panic) => Ended::Breach(vec![format!("the worker panicked: {panic}")]),
            },
        }
    }

    /// Ends both in good order.
    async fn close(&mut self) -> Result<(), Ended> {
        self.shutdown.cancel();
        if let Some(relay) = self.relay.take() {
            let relay = relay.await.map_err(|panic| Ended::Breach(vec![format!("the relay panicked: {panic}")]))?;
            relay.map_err(|error| Ended::refused("the relay stopped", &error))?;
        }
        if let Some(worker) = self.worker.take() {
            let worker = worker.await.map_err(|panic| Ended::Breach(vec![format!("the worker panicked: {panic}")]))?;
            worker.map_err(|error| worker_ended(&error))?;
        }
        Ok(())
    }
}

fn worker_ended(error: &partition_worker::Error) -> Ended {
    if let partition_worker::Error::HandlerFailed { source, .. } = error
        && source.is::<OutOfOrder>()
    {
        return Ended::Breach(vec![source.to_string()]);
    }
    Ended::refused("the worker stopped", error)
}

/// Events appended by the shop, and in the ledger.
async fn sums<DB: Engine>(pool: &Pool<DB>) -> Result<[u64; 2], sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let mut sums = [0; 2];
    for (sum, sql) in sums.iter_mut().zip([APPENDED, IN_LEDGER]) {
        *sum = Statement::new(sql).fetch_one::<DB>(&mut connection).await?.int(0)?.cast_unsigned();
    }
    Ok(sums)
}

/// Applies every table that the run needs.
async fn migrate<DB: Engine>(pool: &Pool<DB>) -> Result<(), leastlock::core::MigrationError> {
    idempotency::MIGRATIONS.run(pool).await?;
    outbox::MIGRATIONS.run(pool).await?;
    partition_worker::MIGRATIONS.run(pool).await?;
    crate::shop::MIGRATIONS.run(pool).await
}

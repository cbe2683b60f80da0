//! The books: what the service's database, the provider's ledger and the published events say, and what must agree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use leastlock::core::Statement;
use leastlock::idempotency::Key;
use leastlock::idempotency::phased::ProviderKey;
use sqlx::{Pool, Postgres, Sqlite};

use crate::BoxError;
use crate::args::Report;
use crate::ended::Ended;
use crate::engine::{Engine, Known, place};
use crate::provider::ledger::{ChargeRow, Ledger, SeenRow};
use crate::service::card::CHARGE_STEP;
use crate::service::scope_of;
use crate::service::shop::Notice;

mod published;
mod reconciliation;

pub(crate) use crate::books::published::{Arrivals, Published};

const ORDERS: &str = "SELECT order_id, customer, idempotency_key, item, units, amount_cents, state, charge_id \
    FROM payment_order ORDER BY order_id";
const STOCK: &str = "SELECT item, opening, units, given_back FROM payment_stock ORDER BY item";
const KEYS: &str = "SELECT scope, idempotency_key, state FROM leastlock_idempotency WHERE scope LIKE 'shop/%/pay'";
const EVENTS: &str = "SELECT CAST(event_id AS TEXT), value FROM leastlock_outbox WHERE topic LIKE 'payments%'";
const RESOLVED: &str = "SELECT count(*) FROM leastlock_idempotency_audit";

/// An order, as the service has it.
#[derive(Debug, Clone)]
pub(crate) struct OrderRow {
    pub(crate) order: String,
    pub(crate) scope: String,
    pub(crate) key: String,
    /// Under which the provider knows its charge: derived anew here, from scope, key and step alone.
    pub(crate) provider_key: String,
    pub(crate) item: String,
    pub(crate) units: i64,
    pub(crate) amount_cents: i64,
    pub(crate) state: String,
    pub(crate) charge_id: Option<String>,
}

/// The stock of an item.
#[derive(Debug, Clone)]
pub(crate) struct StockRow {
    pub(crate) item: String,
    pub(crate) opening: i64,
    pub(crate) units: i64,
    pub(crate) given_back: i64,
}

/// What is read once nothing moves any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Books {
    pub(crate) orders: Vec<OrderRow>,
    pub(crate) stock: Vec<StockRow>,
    /// State by scope and idempotency key.
    pub(crate) keys: BTreeMap<(String, String), String>,
    /// Event id and what it says, from the outbox.
    pub(crate) events: Vec<(String, Notice)>,
    /// The same from the other side, each event id once; `None` if nobody says where that is.
    pub(crate) published: Option<Published>,
    pub(crate) seen: Vec<SeenRow>,
    pub(crate) charges: Vec<ChargeRow>,
    /// Unknown outcomes that the reconciler, or an operator, has resolved.
    pub(crate) resolved: i64,
}

impl Books {
    pub(crate) async fn read<DB: Engine>(
        pool: &Pool<DB>,
        ledger: &Ledger,
        arrivals: Option<&Arrivals>,
    ) -> Result<Self, BoxError> {
        let mut connection = pool.acquire().await?;
        let mut books = Self::default();
        for row in Statement::new(ORDERS).fetch_all::<DB>(&mut connection).await? {
            let scope = scope_of(&row.text(1)?)?;
            let key = Key::new(&scope, &row.text(2)?)?;
            books.orders.push(OrderRow {
                order: row.text(0)?,
                scope: scope.as_str().to_owned(),
                key: key.as_str().to_owned(),
                provider_key: ProviderKey::derive(&key, CHARGE_STEP).to_string(),
                item: row.text(3)?,
                units: row.int(4)?,
                amount_cents: row.int(5)?,
                state: row.text(6)?,
                charge_id: row.optional_text(7)?,
            });
        }
        for row in Statement::new(STOCK).fetch_all::<DB>(&mut connection).await? {
            let (opening, units, given_back) = (row.int(1)?, row.int(2)?, row.int(3)?);
            books.stock.push(StockRow { item: row.text(0)?, opening, units, given_back });
        }
        for row in Statement::new(KEYS).fetch_all::<DB>(&mut connection).await? {
            books.keys.insert((row.text(0)?, row.text(1)?), row.text(2)?);
        }
        for row in Statement::new(EVENTS).fetch_all::<DB>(&mut connection).await? {
            books.events.push((row.text(0)?, serde_json::from_slice(&row.bytes(1)?)?));
        }
        books.resolved = Statement::new(RESOLVED).fetch_one::<DB>(&mut connection).await?.int(0)?;
        if let Some(arrivals) = arrivals {
            books.published = Some(arrivals.read().await?);
        }
        (books.seen, books.charges) = (ledger.seen().await?, ledger.charges().await?);
        Ok(books)
    }

    pub(crate) fn in_state(&self, state: &str) -> usize {
        self.orders.iter().filter(|order| order.state == state).count()
    }

    /// Calls that the provider answered with what an earlier call under the same key had come to.
    pub(crate) fn repeated_calls(&self) -> i64 {
        self.seen.iter().map(|seen| seen.calls - 1).sum()
    }

    /// Event ids in the outbox that are not published.
    pub(crate) fn unpublished(&self) -> BTreeSet<&str> {
        let Some(published) = &self.published else { return BTreeSet::new() };
        let appended = self.events.iter().map(|(id, _)| id.as_str());
        appended.filter(|id| !published.contains_key(*id)).collect()
    }
}

/// Checks the books of a service that stands still.
pub(crate) async fn report(args: &Report) -> Result<(), Ended> {
    match Known::of(&args.database) {
        Some(Known::Postgres) => report_on::<Postgres>(args).await,
        Some(Known::Sqlite) => report_on::<Sqlite>(args).await,
        None => Err(Ended::Refused("--database must begin with postgres:// or sqlite://".to_owned())),
    }
}

async fn report_on<DB: Engine>(args: &Report) -> Result<(), Ended> {
    // Opening a file would make it, and a mistyped path would look like lost money.
    let database = args.database.strip_prefix("sqlite://").map(PathBuf::from);
    let files =
        [("ledger", Some(&args.ledger)), ("database", database.as_ref()), ("file of events", args.events.as_ref())];
    for (what, file) in files {
        if let Some(file) = file.filter(|file| !file.exists()) {
            return Err(Ended::Refused(format!("there is no {what} {}", file.display())));
        }
    }
    let ledger = Ledger::open(&args.ledger, true).await;
    let ledger = ledger.map_err(|error| Ended::refused("cannot open the ledger", &error))?;
    let pools = DB::open(&args.database).await;
    let pools = pools
        .map_err(|error| Ended::refused(&format!("cannot reach the database {}", place(&args.database)), &error))?;
    let arrivals = args.events.clone().map(Arrivals::File);
    let books = Books::read(&pools.back_office, &ledger, arrivals.as_ref()).await;
    let books = books.map_err(|error| Ended::refused("the books cannot be read", &*error))?;
    let breaches = books.breaches();
    if !breaches.is_empty() {
        return Err(Ended::Breach(breaches));
    }
    println!(
        "reconciled: {} orders paid and charged once, {} cancelled and not charged, {} charges at the provider",
        books.in_state("paid"),
        books.in_state("cancelled"),
        books.charges.len()
    );
    Ok(())
}

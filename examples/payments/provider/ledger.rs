//! The provider's ledger: one row for each idempotency key that it saw, and one for each charge.

use std::path::Path;
use std::time::Duration;

use leastlock::core::{Statement, begin, commit};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Sqlite, SqlitePool};

use crate::provider::{ChargeRequest, Seen};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS reference_call (reference TEXT NOT NULL PRIMARY KEY, calls INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS seen (
        provider_key TEXT    NOT NULL PRIMARY KEY,
        reference    TEXT    NOT NULL,
        amount_cents INTEGER NOT NULL,
        calls        INTEGER NOT NULL,
        charge_id    TEXT,
        declined     TEXT
    );
    CREATE TABLE IF NOT EXISTS charge (
        id           INTEGER PRIMARY KEY AUTOINCREMENT,
        provider_key TEXT    NOT NULL,
        reference    TEXT    NOT NULL,
        amount_cents INTEGER NOT NULL
    )";
const COUNT: &str = "INSERT INTO reference_call (reference, calls) VALUES ($1, 1) \
    ON CONFLICT (reference) DO UPDATE SET calls = calls + 1 RETURNING calls";
const LOOK: &str = "SELECT charge_id, declined, amount_cents, reference FROM seen WHERE provider_key = $1";
const NOW: &str = "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";
const CHARGE: &str = "INSERT INTO charge (provider_key, reference, amount_cents) VALUES ($1, $2, $3) RETURNING id";
/// The first outcome of a key stands; a provider that charges for every call does not look at it.
const SEE: &str = "INSERT INTO seen (provider_key, reference, amount_cents, calls, charge_id, declined) \
    VALUES ($1, $2, $3, 1, $4, $5) ON CONFLICT (provider_key) DO UPDATE SET calls = calls + 1";
const SEE_AGAIN: &str = "UPDATE seen SET calls = calls + 1 WHERE provider_key = $1";
const SEEN: &str = "SELECT provider_key, reference, amount_cents, calls, charge_id FROM seen";
const CHARGES: &str = "SELECT id, provider_key, reference, amount_cents FROM charge ORDER BY id";

/// A call that is to charge.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) provider_key: String,
    pub(crate) valid_until: i64,
    pub(crate) request: ChargeRequest,
}

/// What became of a call.
#[derive(Debug)]
pub(crate) enum Taken {
    New(Seen),
    /// Its key was seen before: the outcome is the first's.
    Before(Seen),
    /// Its key was seen before, with something else to charge.
    Mismatch,
}

/// A key that the provider saw.
#[derive(Debug, Clone)]
pub(crate) struct SeenRow {
    pub(crate) provider_key: String,
    pub(crate) reference: String,
    pub(crate) calls: i64,
    pub(crate) charge_id: Option<String>,
}

/// A charge that took effect.
#[derive(Debug, Clone)]
pub(crate) struct ChargeRow {
    pub(crate) id: String,
    pub(crate) provider_key: String,
    pub(crate) reference: String,
    pub(crate) amount_cents: i64,
}

/// The ledger. One connection: what it says of a moment is said in the order of what it does.
#[derive(Debug)]
pub(crate) struct Ledger {
    pool: SqlitePool,
    deduplicates: bool,
}

impl Ledger {
    pub(crate) async fn open(file: &Path, deduplicates: bool) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(30));
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
        sqlx::raw_sql(SCHEMA).execute(&pool).await?;
        Ok(Self { pool, deduplicates })
    }

    /// Counts a call of this reference; answers its number, from 1.
    pub(crate) async fn count(&self, reference: &str) -> Result<i64, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        Statement::new(COUNT).bind(reference).fetch_one::<Sqlite>(&mut connection).await?.int(0)
    }

    /// Charges or declines, if that was not done before and the call is still valid.
    pub(crate) async fn take(&self, call: &Call, declines: bool) -> Result<Taken, sqlx::Error> {
        let Call { provider_key, valid_until, request } = call;
        let mut tx = begin(&self.pool).await?;
        if self.deduplicates {
            let before = Statement::new(LOOK).bind(provider_key).fetch_optional::<Sqlite>(&mut tx).await?;
            if let Some(row) = before {
                if row.text(3)? != request.reference || row.int(2)? != request.amount_cents {
                    return Ok(Taken::Mismatch);
                }
                let seen = seen(&row)?;
                Statement::new(SEE_AGAIN).bind(provider_key).execute::<Sqlite>(&mut tx).await?;
                commit(tx).await?;
                return Ok(Taken::Before(seen));
            }
        }
        let now_ms = Statement::new(NOW).fetch_one::<Sqlite>(&mut tx).await?.int(0)?;
        if now_ms > *valid_until {
            return Ok(Taken::New(Seen::Nothing { now_ms }));
        }
        let seen = if declines {
            Seen::Declined { reason: "insufficient funds".to_owned() }
        } else {
            let charge = Statement::new(CHARGE).bind(provider_key).bind(&request.reference).bind(request.amount_cents);
            let id = charge.fetch_one::<Sqlite>(&mut tx).await?.int(0)?;
            Seen::Charged { charge: charge_id(id), amount_cents: request.amount_cents }
        };
        let (charge, reason) = match &seen {
            Seen::Charged { charge, .. } => (Some(charge.as_str()), None),
            Seen::Declined { reason } => (None, Some(reason.as_str())),
            Seen::Nothing { .. } => (None, None),
        };
        let see = Statement::new(SEE).bind(provider_key).bind(&request.reference).bind(request.amount_cents);
        see.bind(charge).bind(reason).execute::<Sqlite>(&mut tx).await?;
        commit(tx).await?;
        Ok(Taken::New(seen))
    }

    /// What became of a key, as of now.
    pub(crate) async fn look(&self, provider_key: &str) -> Result<Seen, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        let row = Statement::new(LOOK).bind(provider_key).fetch_optional::<Sqlite>(&mut connection).await?;
        match row {
            Some(row) => seen(&row),
            // Later than the look, on the one connection: whatever is taken after it finds a later clock still. The clock is
            // the wall's, which a step back would break; a real provider has a better one.
            None => {
                Ok(Seen::Nothing { now_ms: Statement::new(NOW).fetch_one::<Sqlite>(&mut connection).await?.int(0)? })
            }
        }
    }

    /// Every key that was seen.
    pub(crate) async fn seen(&self) -> Result<Vec<SeenRow>, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        let rows = Statement::new(SEEN).fetch_all::<Sqlite>(&mut connection).await?;
        let row = |row: &leastlock::core::Row<Sqlite>| {
            Ok(SeenRow {
                provider_key: row.text(0)?,
                reference: row.text(1)?,
                calls: row.int(3)?,
                charge_id: row.optional_text(4)?,
            })
        };
        rows.iter().map(row).collect()
    }

    /// Every charge that took effect, in order.
    pub(crate) async fn charges(&self) -> Result<Vec<ChargeRow>, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        let rows = Statement::new(CHARGES).fetch_all::<Sqlite>(&mut connection).await?;
        let row = |row: &leastlock::core::Row<Sqlite>| {
            Ok(ChargeRow {
                id: charge_id(row.int(0)?),
                provider_key: row.text(1)?,
                reference: row.text(2)?,
                amount_cents: row.int(3)?,
            })
        };
        rows.iter().map(row).collect()
    }
}

fn seen(row: &leastlock::core::Row<Sqlite>) -> Result<Seen, sqlx::Error> {
    Ok(match (row.optional_text(0)?, row.optional_text(1)?) {
        (Some(charge), _) => Seen::Charged { charge, amount_cents: row.int(2)? },
        (None, reason) => Seen::Declined { reason: reason.unwrap_or_default() },
    })
}

fn charge_id(id: i64) -> String {
    format!("ch_{id}")
}

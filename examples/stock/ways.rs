//! Six ways to take a unit.

use leastlock::core::{Backoff, Migration, Migrations, Statement, begin, classify};
use leastlock::occ::{Checked, Movement, StockCounter, StockTable, Version, guarded, versioned};
use leastlock::{lease, occ};
use sqlx::Pool;

use crate::BoxError;
use crate::engine::Engine;
use crate::fenced::Fenced;
use crate::race::{Bought, Race, Ran, Way};

const CODE: &str = "85123A";
const SCHEMA: &[Migration] = &[Migration {
    version: 1,
    name: "stock_example",
    sql: "CREATE TABLE stock_example (code VARCHAR(20) PRIMARY KEY, units BIGINT NOT NULL, version BIGINT NOT NULL)",
}];
const MIGRATIONS: Migrations =
    Migrations { table: "stock_example_migrations", postgres: SCHEMA, sqlite: SCHEMA, mysql: &[] };

const EMPTY: &str = "DELETE FROM stock_example";
const OPEN: &str = "INSERT INTO stock_example (code, units, version) VALUES ($1, $2, 1)";
const READ: &str = "SELECT units FROM stock_example WHERE code = $1";
const READ_VERSION: &str = "SELECT units, version FROM stock_example WHERE code = $1";
const VERSION: &str = "SELECT version FROM stock_example WHERE code = $1";
const WRITE: &str = "UPDATE stock_example SET units = $2 WHERE code = $1";
const WRITE_VERSION: &str =
    "UPDATE stock_example SET units = $2, version = version + 1 WHERE code = $1 AND version = $3";
const TAKE: &str = "UPDATE stock_example SET units = units - 1 WHERE code = $1 AND units >= 1";

/// Runs them one after the other, each from a full stock.
pub(crate) async fn all<DB: Engine>(pool: &Pool<DB>, race: &Race) -> Result<Vec<Ran>, BoxError> {
    MIGRATIONS.run(pool).await?;
    occ::MIGRATIONS.run(pool).await?;
    lease::MIGRATIONS.run(pool).await?;
    let counter = StockCounter::builder(pool, &StockTable::new("stock_example", "code", "units")?).build()?;
    let wrong = run(pool, race, "wrong: read, then write", ReadThenWrite(pool.clone())).await?;
    Ok(vec![
        Ran { is_wrong_by_design: true, ..wrong },
        run(pool, race, "conditional UPDATE", ConditionalUpdate(pool.clone())).await?,
        run(pool, race, "read locked, then write", ReadLocked(pool.clone())).await?,
        run(pool, race, "version column, retried", VersionRetried(pool.clone())).await?,
        run(pool, race, "combiner", Combined(counter)).await?,
        run(pool, race, "lease and fence", Fenced::new(pool)?).await?,
    ])
}

async fn run<DB: Engine>(pool: &Pool<DB>, race: &Race, name: &'static str, way: impl Way) -> Result<Ran, BoxError> {
    {
        let mut connection = pool.acquire().await?;
        Statement::new(EMPTY).execute::<DB>(&mut connection).await?;
        Statement::new(OPEN).bind(CODE).bind(race.stock).execute::<DB>(&mut connection).await?;
    }
    let ran = race.run(name, way).await?;
    let mut connection = pool.acquire().await?;
    let left = units::<DB>(&mut connection, READ).await?;
    Ok(ran.counted(race, left))
}

pub(crate) async fn units<DB: Engine>(connection: &mut DB::Connection, read: &'static str) -> Result<i64, sqlx::Error> {
    Statement::new(read).bind(CODE).fetch_one::<DB>(connection).await?.int(0)
}

pub(crate) async fn write<DB: Engine>(connection: &mut DB::Connection, units: i64) -> Result<(), sqlx::Error> {
    Statement::new(WRITE).bind(CODE).bind(units).execute::<DB>(connection).await.map(drop)
}

const SOLD: Bought = Bought { is_sold: true, conflicts: 0 };
const REFUSED: Bought = Bought { is_sold: false, conflicts: 0 };

/// What the unit is decided on may be gone by the time it is written.
struct ReadThenWrite<DB: Engine>(Pool<DB>);

impl<DB: Engine> Way for ReadThenWrite<DB> {
    async fn buy(&self) -> Result<Bought, BoxError> {
        let left = units::<DB>(&mut *self.0.acquire().await?, READ).await?;
        if left < 1 {
            return Ok(REFUSED);
        }
        write::<DB>(&mut *self.0.acquire().await?, left - 1).await?;
        Ok(SOLD)
    }
}

/// The statement itself decides, under the lock that it takes itself.
struct ConditionalUpdate<DB: Engine>(Pool<DB>);

impl<DB: Engine> Way for ConditionalUpdate<DB> {
    async fn buy(&self) -> Result<Bought, BoxError> {
        let mut connection = self.0.acquire().await?;
        let take = Statement::new(TAKE).bind(CODE).into_query::<DB>()?;
        let is_sold = guarded(take).execute(&mut *connection).await?.is_applied();
        Ok(Bought { is_sold, conflicts: 0 })
    }
}

/// The row cannot change between read and write.
struct ReadLocked<DB: Engine>(Pool<DB>);

impl<DB: Engine> Way for ReadLocked<DB> {
    async fn buy(&self) -> Result<Bought, BoxError> {
        let mut tx = begin(&self.0).await?;
        let left = units::<DB>(&mut tx, DB::READ_LOCKED).await?;
        if left < 1 {
            tx.rollback().await?;
            return Ok(REFUSED);
        }
        write::<DB>(&mut tx, left - 1).await?;
        tx.commit().await?;
        Ok(SOLD)
    }
}

/// Whoever came between is noticed, and the whole is tried again.
struct VersionRetried<DB: Engine>(Pool<DB>);

impl<DB: Engine> Way for VersionRetried<DB> {
    async fn buy(&self) -> Result<Bought, BoxError> {
        let backoff = Backoff::default();
        for attempt in 0_u32.. {
            match self.once().await {
                Ok(Some(is_sold)) => return Ok(Bought { is_sold, conflicts: i64::from(attempt) }),
                Ok(None) => {}
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(backoff.delay(attempt)).await;
        }
        Ok(REFUSED)
    }
}

impl<DB: Engine> VersionRetried<DB> {
    /// `None` if somebody else came between.
    async fn once(&self) -> Result<Option<bool>, occ::Error> {
        let failed = |source| occ::Error::Database { class: classify::<DB>(&source), source };
        let mut tx = begin(&self.0).await.map_err(failed)?;
        let read = Statement::new(READ_VERSION).bind(CODE).fetch_one::<DB>(&mut tx).await.map_err(failed)?;
        let (left, version) = (read.int(0).map_err(failed)?, read.int(1).map_err(failed)?);
        if left < 1 {
            return Ok(Some(false));
        }
        let write = Statement::new(WRITE_VERSION).bind(CODE).bind(left - 1).bind(version);
        let write = write.into_query::<DB>().map_err(failed)?;
        let actual = Statement::new(VERSION).bind(CODE).into_query::<DB>().map_err(failed)?;
        match versioned(write, Version::new(version)).actual_by(actual).execute(&mut tx).await? {
            Checked::Applied { .. } => {
                tx.commit().await.map_err(failed)?;
                Ok(Some(true))
            }
            Checked::Refused | Checked::Conflict(_) => Ok(None),
        }
    }
}

/// All that arrive during one commit make up the next.
struct Combined<DB: Engine>(StockCounter<DB>);

impl<DB: Engine> Way for Combined<DB> {
    async fn buy(&self) -> Result<Bought, BoxError> {
        let is_sold = self.0.submit(Movement::take(CODE, 1)?).await?.is_applied();
        Ok(Bought { is_sold, conflicts: 0 })
    }
}

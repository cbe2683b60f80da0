//! The ways to take a unit, and the three that need no more than a statement or two.

use leastlock::core::{Migration, Migrations, Statement, begin, commit};
use leastlock::occ::{Stored, guarded};
use sqlx::Pool;

use crate::engine::{Engine, text};
use crate::race::{Bought, BoxError, Race, Ran, Way};
use crate::retried::{Item, VersionRetried};
use crate::{combined, fenced};

pub(crate) const CODE: &str = "85123A";

/// Text and integers, which PostgreSQL and SQLite write alike.
const SCHEMA: &[Migration] = &[Migration {
    version: 1,
    name: "stock_example",
    sql: "CREATE TABLE stock_example (code VARCHAR(20) PRIMARY KEY, units BIGINT NOT NULL, version BIGINT NOT NULL)",
}];
/// Bytes: a collation would take `85123A` and `85123a` for one.
const MYSQL_SCHEMA: &[Migration] = &[Migration {
    version: 1,
    name: "stock_example",
    sql: "CREATE TABLE stock_example (code VARBINARY(20) PRIMARY KEY, units BIGINT NOT NULL, version BIGINT NOT NULL)",
}];
const MIGRATIONS: Migrations =
    Migrations { table: "stock_example_migrations", postgres: SCHEMA, sqlite: SCHEMA, mysql: MYSQL_SCHEMA };

const EMPTY: &str = "DELETE FROM stock_example";

/// Runs all of them one after the other, each from a full stock; the wrong one first.
pub(crate) async fn all<DB: Engine>(pool: &Pool<DB>, race: &Race) -> Result<Vec<Ran>, BoxError>
where
    Item: Stored<DB>,
{
    warm(pool).await?;
    Ok(vec![
        wrong(pool, race).await?,
        from_full_stock(pool, race, ConditionalUpdate(pool.clone())).await?,
        from_full_stock(pool, race, ReadLocked(pool.clone())).await?,
        from_full_stock(pool, race, VersionRetried::new(pool, race)).await?,
        combined::race(pool, race).await?,
        fenced::race(pool, race).await?,
    ])
}

/// Opens every connection, so that the first way does not pay for all.
async fn warm<DB: Engine>(pool: &Pool<DB>) -> Result<(), BoxError> {
    let mut open = Vec::new();
    for _ in 0..pool.options().get_max_connections() {
        open.push(pool.acquire().await?);
    }
    Ok(())
}

/// Whether every way that must be right was.
pub(crate) fn are_right_ways_exact(ran: &[Ran], race: &Race) -> bool {
    ran.iter().all(|ran| ran.is_wrong_by_design || ran.is_exact(race))
}

/// The mistake by itself.
pub(crate) async fn wrong<DB: Engine>(pool: &Pool<DB>, race: &Race) -> Result<Ran, BoxError> {
    from_full_stock(pool, race, ReadThenWrite(pool.clone())).await
}

/// Fills the stock, lets the buyers at it, and counts what is left.
pub(crate) async fn from_full_stock<DB: Engine>(pool: &Pool<DB>, race: &Race, way: impl Way) -> Result<Ran, BoxError> {
    MIGRATIONS.run(pool).await?;
    let open = text::<DB>(
        "INSERT INTO stock_example (code, units, version) VALUES ($1, $2, 1)",
        "INSERT INTO stock_example (code, units, version) VALUES (?, ?, 1)",
    );
    let mut tx = begin(pool).await?;
    Statement::new(EMPTY).execute::<DB>(&mut tx).await?;
    Statement::new(open).bind(CODE).bind(race.stock).execute::<DB>(&mut tx).await?;
    commit(tx).await?;
    let left = async { Ok(read::<DB>(&mut *pool.acquire().await?).await?) };
    race.run(way, left).await
}

/// Reads the units, and locks nothing.
pub(crate) async fn read<DB: Engine>(connection: &mut DB::Connection) -> Result<i64, sqlx::Error> {
    read_by::<DB>(
        connection,
        text::<DB>("SELECT units FROM stock_example WHERE code = $1", "SELECT units FROM stock_example WHERE code = ?"),
    )
    .await
}

async fn read_by<DB: Engine>(connection: &mut DB::Connection, read: &'static str) -> Result<i64, sqlx::Error> {
    Statement::new(read).bind(CODE).fetch_one::<DB>(connection).await?.int(0)
}

/// Writes what the caller has computed.
pub(crate) async fn write<DB: Engine>(connection: &mut DB::Connection, units: i64) -> Result<(), sqlx::Error> {
    let write = text::<DB>(
        "UPDATE stock_example SET units = $1 WHERE code = $2",
        "UPDATE stock_example SET units = ? WHERE code = ?",
    );
    Statement::new(write).bind(units).bind(CODE).execute::<DB>(connection).await.map(drop)
}

const SOLD: Bought = Bought { is_sold: true, conflicts: 0 };
const REFUSED: Bought = Bought { is_sold: false, conflicts: 0 };

/// What the unit is decided on may be gone by the time it is written.
struct ReadThenWrite<DB: Engine>(Pool<DB>);

impl<DB: Engine> Way for ReadThenWrite<DB> {
    const NAME: &'static str = "wrong: read, then write";
    const IS_WRONG_BY_DESIGN: bool = true;

    async fn buy(&self) -> Result<Bought, BoxError> {
        let left = read::<DB>(&mut *self.0.acquire().await?).await?;
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
    const NAME: &'static str = "conditional UPDATE";
    const IS_WRONG_BY_DESIGN: bool = false;

    async fn buy(&self) -> Result<Bought, BoxError> {
        let take = text::<DB>(
            "UPDATE stock_example SET units = units - 1 WHERE code = $1 AND units >= 1",
            "UPDATE stock_example SET units = units - 1 WHERE code = ? AND units >= 1",
        );
        let take = Statement::new(take).bind(CODE).into_query::<DB>()?;
        let is_sold = guarded(take).execute(&mut *self.0.acquire().await?).await?.is_applied();
        Ok(Bought { is_sold, conflicts: 0 })
    }
}

/// The row cannot change between read and write.
struct ReadLocked<DB: Engine>(Pool<DB>);

impl<DB: Engine> Way for ReadLocked<DB> {
    const NAME: &'static str = "read locked, then write";
    const IS_WRONG_BY_DESIGN: bool = false;

    async fn buy(&self) -> Result<Bought, BoxError> {
        let mut tx = begin(&self.0).await?;
        let left = read_by::<DB>(&mut tx, DB::READ_LOCKED).await?;
        if left < 1 {
            tx.rollback().await?;
            return Ok(REFUSED);
        }
        write::<DB>(&mut tx, left - 1).await?;
        commit(tx).await?;
        Ok(SOLD)
    }
}

//! Guarded conditional UPDATE, against plain sqlx and a check of the row count.

use std::sync::Arc;

use anyhow::ensure;
use fastrand::Rng;
use leastlock_occ::guarded;
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::{Postgres, Sqlite};
use sqlx::Pool;

use crate::combine;
use crate::contest::{Contest, compare};
use crate::engine::BenchEngine;
use crate::options::Options;
use crate::report::Report;

const TAKE: &str = include_str!("../sql/take.sql");
const OPEN: &str = include_str!("../sql/open_stock.sql");
const TABLE: &str = "CREATE TABLE stock (code text PRIMARY KEY, units bigint NOT NULL)";
const SUM: &str = "SELECT CAST(sum(units) AS bigint) FROM stock";
const LOWEST: &str = "SELECT min(units) FROM stock";

/// More than a round can take from one row.
const OPENING: i64 = 1_000_000_000;

/// The statements of this scenario.
pub(crate) trait StockSql: sqlx::Database {
    /// Removes all rows as cheaply as the engine can.
    const EMPTY_STOCK: &'static str;

    /// Opens that many rows with that many units each.
    fn open(pool: &Pool<Self>, rows: i64, units: i64) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Takes a unit with the library; answers whether there was one.
    fn take_guarded(pool: &Pool<Self>, code: &str) -> impl Future<Output = anyhow::Result<bool>> + Send;

    /// Takes a unit with sqlx alone; answers whether there was one.
    fn take_by_hand(pool: &Pool<Self>, code: &str) -> impl Future<Output = anyhow::Result<bool>> + Send;
}

/// sqlx's bounds on generic queries fill a page; the statements are the same for every engine, only its types differ.
macro_rules! stock_sql {
    ($engine:ty, $empty:literal) => {
        impl StockSql for $engine {
            const EMPTY_STOCK: &'static str = $empty;

            async fn open(pool: &Pool<Self>, rows: i64, units: i64) -> anyhow::Result<()> {
                sqlx::query(OPEN).bind(rows).bind(units).execute(pool).await?;
                Ok(())
            }

            async fn take_guarded(pool: &Pool<Self>, code: &str) -> anyhow::Result<bool> {
                let mut connection = pool.acquire().await?;
                let taken = guarded(sqlx::query(TAKE).bind(1_i64).bind(code)).execute(&mut *connection).await?;
                Ok(taken.is_applied())
            }

            async fn take_by_hand(pool: &Pool<Self>, code: &str) -> anyhow::Result<bool> {
                let mut connection = pool.acquire().await?;
                let taken = sqlx::query(TAKE).bind(1_i64).bind(code).execute(&mut *connection).await?;
                Ok(taken.rows_affected() == 1)
            }
        }
    };
}
stock_sql!(Postgres, "TRUNCATE stock");
stock_sql!(Sqlite, "DELETE FROM stock");

/// How a unit is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Take {
    Guarded,
    ByHand,
}

/// Takes units from so many rows, each row as likely as any other.
#[derive(Debug)]
struct Stock<DB: BenchEngine> {
    database: Arc<TestDatabase<DB>>,
    pool: Pool<DB>,
    measure: &'static str,
    codes: Vec<String>,
}

impl<DB: BenchEngine> Stock<DB> {
    fn new(database: &Arc<TestDatabase<DB>>, pool: &Pool<DB>, rows: usize, measure: &'static str) -> Self {
        let codes = (0..rows).map(|number| format!("item-{number}")).collect();
        Self { database: Arc::clone(database), pool: pool.clone(), measure, codes }
    }

    fn rows(&self) -> i64 {
        i64::try_from(self.codes.len()).unwrap_or(i64::MAX)
    }
}

impl<DB: BenchEngine> Contest for Stock<DB> {
    type Contender = Take;
    const CONTENDERS: &'static [(&'static str, Take)] = &[("leastlock", Take::Guarded), ("by hand", Take::ByHand)];

    fn measure(&self) -> &'static str {
        self.measure
    }

    async fn prepare(&self) -> anyhow::Result<()> {
        self.database.execute(DB::EMPTY_STOCK).await;
        DB::open(&self.pool, self.rows(), OPENING).await
    }

    async fn call(&self, contender: Take, rng: &mut Rng) -> anyhow::Result<u64> {
        let code = &self.codes[rng.usize(..self.codes.len())];
        let taken = match contender {
            Take::Guarded => DB::take_guarded(&self.pool, code).await?,
            Take::ByHand => DB::take_by_hand(&self.pool, code).await?,
        };
        Ok(u64::from(taken))
    }

    async fn verify(&self, _contender: Take, effects: u64) -> anyhow::Result<()> {
        let (opening, stock) = (self.rows() * OPENING, self.database.int(SUM).await);
        let expected = opening - i64::try_from(effects)?;
        ensure!(stock == expected, "stock is {stock}, but {opening} opened and {effects} applied leave {expected}");
        ensure!(effects > 0 && self.database.int(LOWEST).await >= 0, "a row was sold out: the load was not as planned");
        Ok(())
    }
}

/// Measures the scenario.
pub(crate) async fn run<DB: BenchEngine>(options: &Options) -> anyhow::Result<Report> {
    let database = Arc::new(TestDatabase::<DB>::create().await);
    database.execute(TABLE).await;
    let mut report = Report::begin("stock", options, &database).await?;
    combine::open(&database).await?;
    let on_one_row = (1, "take from 1 row", ["combine: take from 1 row", "combine: order from 1 row"]);
    let on_many_rows =
        (1000, "take from 1,000 rows", ["combine: take from 1,000 rows", "combine: order from 1,000 rows"]);
    for (rows, measure, combined) in [on_one_row, on_many_rows] {
        for &clients in &options.clients {
            let pool = DB::pool(&database.url, clients).await?;
            let contest = Stock::new(&database, &pool, rows, measure);
            report.comparisons.push(compare(contest, clients, options).await?);
            report.comparisons.extend(combine::run(&database, &pool, rows, combined, clients, options).await?);
            pool.close().await;
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn contest<DB: BenchEngine>() -> Stock<DB> {
        let database = Arc::new(TestDatabase::<DB>::create().await);
        database.execute(TABLE).await;
        let pool = DB::pool(&database.url, 2).await.unwrap();
        Stock::new(&database, &pool, 3, "take from 3 rows")
    }

    async fn lost_and_invented_units_are_noticed<DB: BenchEngine>() {
        let contest = contest::<DB>().await;
        let mut rng = Rng::with_seed(7);
        for contender in [Take::Guarded, Take::ByHand] {
            contest.prepare().await.unwrap();
            let mut applied = 0;
            for _ in 0..20 {
                applied += contest.call(contender, &mut rng).await.unwrap();
            }
            assert_eq!(applied, 20);
            contest.verify(contender, applied).await.unwrap();
            assert!(contest.verify(contender, applied + 1).await.is_err(), "an update was lost");
            assert!(contest.verify(contender, applied - 1).await.is_err(), "an update was made twice");
        }
    }

    async fn both_contenders_refuse_what_is_not_there<DB: BenchEngine>() {
        let contest = contest::<DB>().await;
        DB::open(&contest.pool, 1, 1).await.unwrap();
        assert!(DB::take_guarded(&contest.pool, "item-0").await.unwrap());
        assert!(!DB::take_guarded(&contest.pool, "item-0").await.unwrap());
        assert!(!DB::take_by_hand(&contest.pool, "item-0").await.unwrap());
        assert!(!DB::take_by_hand(&contest.pool, "item-9").await.unwrap());
    }

    #[tokio::test]
    async fn lost_and_invented_units_are_noticed_on_sqlite() {
        lost_and_invented_units_are_noticed::<Sqlite>().await;
    }

    #[tokio::test]
    async fn lost_and_invented_units_are_noticed_on_postgres() {
        lost_and_invented_units_are_noticed::<Postgres>().await;
    }

    #[tokio::test]
    async fn both_contenders_refuse_what_is_not_there_on_sqlite() {
        both_contenders_refuse_what_is_not_there::<Sqlite>().await;
    }

    #[tokio::test]
    async fn both_contenders_refuse_what_is_not_there_on_postgres() {
        both_contenders_refuse_what_is_not_there::<Postgres>().await;
    }
}

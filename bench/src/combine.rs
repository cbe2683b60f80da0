//! Units taken through a `StockCounter`, against the same by hand: a conditional UPDATE, and a transaction that inserts an
//! order id first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::ensure;
use fastrand::Rng;
use leastlock_occ::{MIGRATIONS, Movement, StockCounter, StockTable};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::{Postgres, Sqlite};
use sqlx::Pool;

use crate::contest::{Comparison, Contest, compare};
use crate::engine::BenchEngine;
use crate::options::Options;

const TAKE: &str = include_str!("../sql/take.sql");
const INSERT_ORDER: &str = include_str!("../sql/insert_order.sql");
const TABLE: &str = "CREATE TABLE plain_order (order_id text PRIMARY KEY)";
const SUM: &str = "SELECT CAST(sum(units) AS bigint) FROM stock";
const LOWEST: &str = "SELECT min(units) FROM stock";
const ORDERS: &str = "SELECT (SELECT count(*) FROM leastlock_occ_order) + (SELECT count(*) FROM plain_order)";

/// More than a round can take from one row.
const OPENING: i64 = 1_000_000_000;

/// The statements of this scenario.
pub(crate) trait CombineSql: leastlock_occ::StockSql {
    /// Removes all order ids as cheaply as the engine can.
    const EMPTY_ORDERS: [&'static str; 2];

    /// Inserts the id and takes a unit in one transaction, with sqlx alone; answers whether there was one.
    fn order_by_hand(pool: &Pool<Self>, id: &str, code: &str) -> impl Future<Output = anyhow::Result<bool>> + Send;
}

/// sqlx's bounds on generic queries fill a page; the statements are the same for every engine, only its types differ.
macro_rules! combine_sql {
    ($engine:ty, $empty:expr) => {
        impl CombineSql for $engine {
            const EMPTY_ORDERS: [&'static str; 2] = $empty;

            async fn order_by_hand(pool: &Pool<Self>, id: &str, code: &str) -> anyhow::Result<bool> {
                let mut tx = pool.begin_with(<Self as leastlock_core::Dialect>::BEGIN_WRITE).await?;
                sqlx::query(INSERT_ORDER).bind(id).execute(&mut *tx).await?;
                let taken = sqlx::query(TAKE).bind(1_i64).bind(code).execute(&mut *tx).await?;
                tx.commit().await?;
                Ok(taken.rows_affected() == 1)
            }
        }
    };
}
combine_sql!(Postgres, ["TRUNCATE leastlock_occ_order", "TRUNCATE plain_order"]);
combine_sql!(Sqlite, ["DELETE FROM leastlock_occ_order", "DELETE FROM plain_order"]);

/// What both sides share.
#[derive(Debug)]
struct Stock<DB: BenchEngine> {
    database: Arc<TestDatabase<DB>>,
    pool: Pool<DB>,
    counter: StockCounter<DB>,
    measure: &'static str,
    codes: Vec<String>,
    /// Ids are never used twice, in any round.
    next_order: AtomicU64,
}

impl<DB: BenchEngine> Stock<DB> {
    fn new(
        database: &Arc<TestDatabase<DB>>,
        pool: &Pool<DB>,
        rows: usize,
        measure: &'static str,
    ) -> anyhow::Result<Self> {
        let codes = (0..rows).map(|number| format!("item-{number}")).collect();
        let counter = StockCounter::builder(pool, &StockTable::new("stock", "code", "units")?).build()?;
        let (database, pool) = (Arc::clone(database), pool.clone());
        Ok(Self { database, pool, counter, measure, codes, next_order: AtomicU64::new(0) })
    }

    fn rows(&self) -> i64 {
        i64::try_from(self.codes.len()).unwrap_or(i64::MAX)
    }

    fn code(&self, rng: &mut Rng) -> &str {
        &self.codes[rng.usize(..self.codes.len())]
    }

    async fn prepare(&self) -> anyhow::Result<()> {
        self.database.execute(DB::EMPTY_STOCK).await;
        for empty in DB::EMPTY_ORDERS {
            self.database.execute(empty).await;
        }
        DB::open(&self.pool, self.rows(), OPENING).await
    }

    async fn verify(&self, effects: u64, orders: u64) -> anyhow::Result<()> {
        let (opening, stock) = (self.rows() * OPENING, self.database.int(SUM).await);
        let expected = opening - i64::try_from(effects)?;
        ensure!(stock == expected, "stock is {stock}, but {opening} opened and {effects} applied leave {expected}");
        ensure!(effects > 0 && self.database.int(LOWEST).await >= 0, "a row was sold out: the load was not as planned");
        let stored = self.database.int(ORDERS).await;
        ensure!(stored == i64::try_from(orders)?, "{stored} order ids are stored, and {orders} were given");
        Ok(())
    }
}

/// How a unit is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Take {
    Combined,
    ByHand,
}

#[derive(Debug)]
struct Units<DB: BenchEngine>(Stock<DB>);

impl<DB: BenchEngine> Contest for Units<DB> {
    type Contender = Take;
    const CONTENDERS: &'static [(&'static str, Take)] =
        &[("combiner", Take::Combined), ("conditional UPDATE", Take::ByHand)];

    fn measure(&self) -> &'static str {
        self.0.measure
    }

    async fn prepare(&self) -> anyhow::Result<()> {
        self.0.prepare().await
    }

    async fn call(&self, contender: Take, rng: &mut Rng) -> anyhow::Result<u64> {
        let code = self.0.code(rng);
        let taken = match contender {
            Take::Combined => self.0.counter.submit(Movement::take(code, 1)?).await?.is_applied(),
            Take::ByHand => DB::take_by_hand(&self.0.pool, code).await?,
        };
        Ok(u64::from(taken))
    }

    async fn verify(&self, _contender: Take, effects: u64) -> anyhow::Result<()> {
        self.0.verify(effects, 0).await
    }
}

#[derive(Debug)]
struct Orders<DB: BenchEngine>(Stock<DB>);

impl<DB: BenchEngine> Contest for Orders<DB> {
    type Contender = Take;
    const CONTENDERS: &'static [(&'static str, Take)] =
        &[("combiner with order ids", Take::Combined), ("INSERT id, UPDATE, commit", Take::ByHand)];

    fn measure(&self) -> &'static str {
        self.0.measure
    }

    async fn prepare(&self) -> anyhow::Result<()> {
        self.0.prepare().await
    }

    async fn call(&self, contender: Take, rng: &mut Rng) -> anyhow::Result<u64> {
        let code = self.0.code(rng);
        let id = format!("order-{:012}", self.0.next_order.fetch_add(1, Relaxed));
        let taken = match contender {
            Take::Combined => self.0.counter.submit(Movement::take(code, 1)?.with_order_id(id)?).await?.is_applied(),
            Take::ByHand => DB::order_by_hand(&self.0.pool, &id, code).await?,
        };
        Ok(u64::from(taken))
    }

    async fn verify(&self, _contender: Take, effects: u64) -> anyhow::Result<()> {
        self.0.verify(effects, effects).await
    }
}

/// Makes the tables of this scenario beside those of the other.
pub(crate) async fn open<DB: BenchEngine>(database: &TestDatabase<DB>) -> anyhow::Result<()> {
    database.execute(TABLE).await;
    Ok(MIGRATIONS.run(&database.pool).await?)
}

/// Both contests on that many rows.
pub(crate) async fn run<DB: BenchEngine>(
    database: &Arc<TestDatabase<DB>>,
    pool: &Pool<DB>,
    rows: usize,
    [units, orders]: [&'static str; 2],
    clients: u32,
    options: &Options,
) -> anyhow::Result<[Comparison; 2]> {
    let units = compare(Units(Stock::new(database, pool, rows, units)?), clients, options).await?;
    let orders = compare(Orders(Stock::new(database, pool, rows, orders)?), clients, options).await?;
    Ok([units, orders])
}

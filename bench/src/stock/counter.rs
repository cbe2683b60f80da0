//! Combined operations, where the engine has them.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use anyhow::ensure;
use leastlock_core::Dialect;
use leastlock_occ::combiner::Drained;
use leastlock_occ::{MIGRATIONS, Movement, StockCounter, StockSql, StockTable};
use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use sqlx::Pool;

/// Longer than any batch takes.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// An engine, with its counter or without.
pub(crate) trait CounterEngine: Dialect {
    /// [`Infallible`] where there is none.
    type Counter: Counter<Self>;
}

impl CounterEngine for Postgres {
    type Counter = StockCounter<Self>;
}

impl CounterEngine for Sqlite {
    type Counter = StockCounter<Self>;
}

impl CounterEngine for MySql {
    type Counter = Infallible;
}

/// A counter of the table `stock`.
pub(crate) trait Counter<DB: Dialect>: Sized + Send + Sync + fmt::Debug + 'static {
    /// Whether the engine has one.
    const EXISTS: bool;
    /// Removes all order ids as cheaply as the engine can.
    const EMPTY_ORDERS: &'static str;

    /// Makes the tables that it needs beside `stock`.
    fn make_tables(pool: &Pool<DB>) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// One that applies its batches on connections of `pool`; `None` where the engine has none.
    fn start(pool: &Pool<DB>) -> anyhow::Result<Option<Self>>;

    /// Takes a unit, under an order id or without one; answers whether there was one.
    fn take(&self, code: &str, order_id: Option<String>) -> impl Future<Output = anyhow::Result<bool>> + Send;

    /// Waits until all is answered and its connection has gone back.
    fn close(&self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

impl<DB: StockSql> Counter<DB> for StockCounter<DB> {
    const EXISTS: bool = true;
    const EMPTY_ORDERS: &'static str = match DB::ENGINE {
        leastlock_core::Engine::Sqlite => "DELETE FROM leastlock_occ_order",
        _ => "TRUNCATE TABLE leastlock_occ_order",
    };

    async fn make_tables(pool: &Pool<DB>) -> anyhow::Result<()> {
        Ok(MIGRATIONS.run(pool).await?)
    }

    fn start(pool: &Pool<DB>) -> anyhow::Result<Option<Self>> {
        Ok(Some(StockCounter::builder(pool, &StockTable::new("stock", "code", "units")?).build()?))
    }

    async fn take(&self, code: &str, order_id: Option<String>) -> anyhow::Result<bool> {
        let mut movement = Movement::take(code, 1)?;
        if let Some(order_id) = order_id {
            movement = movement.with_order_id(order_id)?;
        }
        Ok(self.submit(movement).await?.is_applied())
    }

    async fn close(&self) -> anyhow::Result<()> {
        let drained = self.close(DRAIN_LIMIT).await;
        ensure!(drained == Drained::Whole, "the counter was not done in {DRAIN_LIMIT:?}");
        Ok(())
    }
}

impl<DB: Dialect> Counter<DB> for Infallible {
    const EXISTS: bool = false;
    const EMPTY_ORDERS: &'static str = "";

    async fn make_tables(_pool: &Pool<DB>) -> anyhow::Result<()> {
        Ok(())
    }

    fn start(_pool: &Pool<DB>) -> anyhow::Result<Option<Self>> {
        Ok(None)
    }

    async fn take(&self, _code: &str, _order_id: Option<String>) -> anyhow::Result<bool> {
        match *self {}
    }

    async fn close(&self) -> anyhow::Result<()> {
        match *self {}
    }
}

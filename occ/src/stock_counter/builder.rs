//! What a counter is made of.

use std::fmt;
use std::marker::PhantomData;

use sqlx::Pool;

use super::StockCounter;
use super::beside::{Beside, Nothing};
use super::counting::Counting;
use super::short_way::ShortWay;
use super::sql::StockSql;
use super::table::StockTable;
use crate::combiner::{Combiner, CombinerBuilder, LimitError};

/// Makes a [`StockCounter`].
#[must_use = "nothing is made before build()"]
pub struct StockCounterBuilder<DB: StockSql, B: Beside<DB>> {
    pool: Pool<DB>,
    table: StockTable,
    floor: i64,
    beside: B,
    has_beside: bool,
    takes_the_short_way: bool,
}

impl<DB: StockSql> StockCounterBuilder<DB, Nothing> {
    pub(super) fn new(pool: &Pool<DB>, table: &StockTable) -> Self {
        let (pool, table) = (pool.clone(), table.clone());
        Self { pool, table, floor: 0, beside: Nothing, has_beside: false, takes_the_short_way: true }
    }
}

impl<DB: StockSql, B: Beside<DB>> StockCounterBuilder<DB, B> {
    /// The least that a row may have after units were taken from it; zero by default. Below zero it allows a back-order or an
    /// overdraft.
    pub const fn floor(mut self, units: i64) -> Self {
        self.floor = units;
        self
    }

    /// Gives every movement a transaction that can be looked up. Without this, a batch of which every movement can be met is
    /// one statement on PostgreSQL, and so is a movement of one row that comes alone on every engine. If the reply to *that* is lost, only an
    /// order id tells whether a movement was applied; without one it is answered
    /// [`Unknown`](crate::combiner::CombineError::Unknown), as after a lost reply to an `UPDATE` of one's own. With it, every
    /// batch takes three round trips more on PostgreSQL. On MySQL and MariaDB no transaction can be looked up: there only order
    /// ids tell.
    pub const fn always_in_a_transaction(mut self) -> Self {
        self.takes_the_short_way = false;
        self
    }

    /// Writes `beside` in the transaction of the movements.
    pub fn beside<C: Beside<DB>>(self, beside: C) -> StockCounterBuilder<DB, C> {
        let Self { pool, table, floor, .. } = self;
        StockCounterBuilder { pool, table, floor, beside, has_beside: true, takes_the_short_way: false }
    }

    /// Builds the statements, and starts the committer with the default limits.
    ///
    /// # Errors
    /// None with the default limits.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn build(self) -> Result<StockCounter<DB, B>, LimitError> {
        self.build_with(|combiner| combiner)
    }

    /// As [`build`](Self::build), with limits of one's own: `build_with(|combiner| combiner.max_queue(100))`.
    ///
    /// # Errors
    /// [`LimitError`] names the limit that is zero or too high.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[allow(private_interfaces, reason = "what applies the batches is nobody's business; its limits are")]
    pub fn build_with(
        self,
        limits: impl FnOnce(CombinerBuilder<DB, Counting<DB, B>>) -> CombinerBuilder<DB, Counting<DB, B>>,
    ) -> Result<StockCounter<DB, B>, LimitError> {
        let texts = DB::texts(&self.table);
        let Self { floor, beside, has_beside, takes_the_short_way, .. } = self;
        let short_way = ShortWay::new(takes_the_short_way);
        let counting = Counting { texts, floor, beside, has_beside, short_way, database: PhantomData };
        let combiner = limits(Combiner::builder(&self.pool, counting)).build()?;
        Ok(StockCounter { combiner })
    }
}

impl<DB: StockSql, B: Beside<DB>> fmt::Debug for StockCounterBuilder<DB, B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("StockCounterBuilder");
        debug.field("table", &self.table).field("floor", &self.floor).finish_non_exhaustive()
    }
}

//! A combiner: all that arrive during one commit make up the next.

use leastlock::occ::{self, Movement, StockCounter, StockSql, StockTable};
use sqlx::Pool;

use crate::engine::Engine;
use crate::race::{Bought, BoxError, Race, Ran, Way};
use crate::ways::{CODE, from_full_stock};

struct Combined<DB: StockSql>(StockCounter<DB>);

/// Runs the race through a counter of the example's own table.
pub(crate) async fn race<DB: Engine + StockSql>(pool: &Pool<DB>, race: &Race) -> Result<Ran, BoxError> {
    occ::MIGRATIONS.run(pool).await?;
    let counter = StockCounter::builder(pool, &StockTable::new("stock_example", "code", "units")?).build()?;
    from_full_stock(pool, race, Combined(counter)).await
}

impl<DB: StockSql> Way for Combined<DB> {
    const NAME: &'static str = "combiner";
    const IS_WRONG_BY_DESIGN: bool = false;

    async fn buy(&self) -> Result<Bought, BoxError> {
        let is_sold = self.0.submit(Movement::take(CODE, 1)?).await?.is_applied();
        Ok(Bought { is_sold, conflicts: 0 })
    }
}

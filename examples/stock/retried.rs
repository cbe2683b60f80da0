//! A version column: whoever came between is noticed, and the whole is tried again.

use std::time::Duration;

use leastlock::core::Backoff;
use leastlock::occ::{self, Attempt, Conflict, MayConflict, Retry, Stored, Version, Versioned};
use sqlx::Pool;

use crate::engine::Engine;
use crate::race::{Bought, BoxError, Race, Way};
use crate::ways::CODE;

/// A row of stock.
#[derive(Debug, Clone, Versioned)]
#[versioned(table = "stock_example", key = "code", version = "version", crate = "leastlock::occ")]
pub(crate) struct Item {
    code: String,
    units: i64,
    version: Version,
}

/// Why a unit of work did not commit.
#[derive(Debug, thiserror::Error, MayConflict)]
#[conflict(crate = "leastlock::occ")]
enum BuyError {
    #[error("the item is gone")]
    NoItem,
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error(transparent)]
    Database(#[from] occ::Error),
}

pub(crate) struct VersionRetried<DB: Engine> {
    pool: Pool<DB>,
    retry: Retry,
}

impl<DB: Engine> VersionRetried<DB> {
    /// The default limits give a row up that is as hot as this one. Here every buyer is to have an answer, so that the price
    /// can be seen; and the more there are, the longer each has to pause.
    pub(crate) fn new(pool: &Pool<DB>, race: &Race) -> Self {
        let pauses = Backoff::new(Duration::from_millis(5), Duration::from_millis(5) * race.clients);
        let retry = Retry::default().attempts(10_000).within(Duration::from_mins(5)).backoff(pauses);
        Self { pool: pool.clone(), retry }
    }
}

impl<DB: Engine> Way for VersionRetried<DB>
where
    Item: Stored<DB>,
{
    const NAME: &'static str = "version column, retried";
    const IS_WRONG_BY_DESIGN: bool = false;

    async fn buy(&self) -> Result<Bought, BoxError> {
        let bought = self.retry.run(&self.pool, async |mut attempt: Attempt<DB>| {
            let conflicts = i64::from(attempt.number()) - 1;
            let item = Item::load(attempt.connection(), CODE).await?.ok_or(BuyError::NoItem)?;
            let is_sold = item.units >= 1;
            if is_sold {
                item.update(attempt.connection(), |item| item.units -= 1).await?.into_result()?;
            }
            Ok::<_, BuyError>(attempt.commit(Bought { is_sold, conflicts }).await?)
        });
        Ok(bought.await?)
    }
}

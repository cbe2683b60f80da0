//! A lease around the decrement, and its token checked by the row's resource: the most lock, for what cannot do with less.

use std::time::Duration;

use leastlock::core::{Backoff, begin};
use leastlock::lease::{Acquire, Fence, Hold, Leases, LockName, SqlLeaseStore};
use sqlx::Pool;

use crate::BoxError;
use crate::engine::Engine;
use crate::race::{Bought, Way};
use crate::ways::{units, write};

const READ: &str = "SELECT units FROM stock_example WHERE code = $1";

pub(crate) struct Fenced<DB: Engine> {
    pool: Pool<DB>,
    leases: Leases<SqlLeaseStore<DB>>,
    fence: Fence,
    name: LockName,
}

impl<DB: Engine> Fenced<DB> {
    pub(crate) fn new(pool: &Pool<DB>) -> Result<Self, BoxError> {
        let leases = Leases::new(SqlLeaseStore::new(pool));
        let (fence, name) = (Fence::new("stock-example:85123A")?, LockName::new("stock-example:item:85123A")?);
        Ok(Self { pool: pool.clone(), leases, fence, name })
    }
}

impl<DB: Engine> Way for Fenced<DB> {
    async fn buy(&self) -> Result<Bought, BoxError> {
        let pauses = Backoff::new(Duration::from_millis(1), Duration::from_millis(20));
        let patience = Acquire::waiting(Duration::from_mins(2)).backoff(pauses);
        let lease = self.leases.acquire_with(&self.name, Hold::renewed(Duration::from_secs(10)), patience).await?;
        let (pool, fence) = (self.pool.clone(), self.fence.clone());
        let is_sold = lease
            .run(async move |scope| {
                let permit = scope.permit()?;
                fence.seal(&pool, &permit).await?;
                let mut tx = begin(&pool).await?;
                fence.check(&mut tx, &permit).await?;
                let left = units::<DB>(&mut tx, READ).await?;
                if left < 1 {
                    return Ok(false);
                }
                write::<DB>(&mut tx, left - 1).await?;
                tx.commit().await?;
                Ok(true)
            })
            .await?;
        Ok(Bought { is_sold, conflicts: 0 })
    }
}

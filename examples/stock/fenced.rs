//! A lease around the decrement, and its token checked by the row's resource: the most lock, for what cannot do with less.

use std::time::Duration;

use leastlock::core::{Backoff, begin};
use leastlock::lease::{self, Acquire, Fence, Hold, LeaseSql, Leases, LockName, SqlLeaseStore};
use sqlx::Pool;

use crate::engine::Engine;
use crate::race::{Bought, BoxError, Race, Ran, Way};
use crate::ways::{from_full_stock, read, write};

const PATIENCE: Duration = Duration::from_mins(5);
const TTL: Duration = Duration::from_secs(10);

struct Fenced<DB: Engine + LeaseSql> {
    pool: Pool<DB>,
    leases: Leases<SqlLeaseStore<DB>>,
    fence: Fence,
    name: LockName,
    pauses: Backoff,
}

/// Runs the race through one lease.
pub(crate) async fn race<DB: Engine + LeaseSql>(pool: &Pool<DB>, race: &Race) -> Result<Ran, BoxError> {
    lease::MIGRATIONS.run(pool).await?;
    let fenced = Fenced {
        pool: pool.clone(),
        leases: Leases::new(SqlLeaseStore::new(pool)),
        fence: Fence::new("stock-example:85123A")?,
        name: LockName::new("stock-example:item:85123A")?,
        // Whoever waits asks again and again: the more wait, the longer each must pause, or the asking is all that is done.
        pauses: Backoff::new(Duration::from_millis(1) * race.clients, Duration::from_millis(10) * race.clients),
    };
    from_full_stock(pool, race, fenced).await
}

impl<DB: Engine + LeaseSql> Way for Fenced<DB> {
    const NAME: &'static str = "lease and fence";
    const IS_WRONG_BY_DESIGN: bool = false;

    async fn buy(&self) -> Result<Bought, BoxError> {
        let patience = Acquire::waiting(PATIENCE).backoff(self.pauses);
        let lease = self.leases.acquire_with(&self.name, Hold::renewed(TTL), patience).await?;
        let (pool, fence) = (self.pool.clone(), self.fence.clone());
        let is_sold = lease
            .run(async move |scope| {
                let permit = scope.permit()?;
                fence.seal(&pool, &permit).await?;
                let mut tx = begin(&pool).await?;
                fence.check(&mut tx, &permit).await?;
                let left = read::<DB>(&mut tx).await?;
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

//! A transaction that is protected from its first statement on.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use leastlock_core::to_its_end;
use sqlx::{Pool, Transaction};

use super::{Fence, database};
use crate::error::Error;
use crate::permit::Permit;
use crate::sql::LeaseSql;

const BEGIN: &str = "begin a protected transaction";

/// A transaction that has passed its check before anything else, and whose idling is bounded on every engine that can.
///
/// It derefs to sqlx's [`Transaction`]. Dropped, it rolls back, and what was set on its connection is put back before anybody
/// else gets that from the pool.
#[derive(Debug)]
pub struct Protected<DB: LeaseSql> {
    /// `None` only once the value is given up.
    tx: Option<Transaction<'static, DB>>,
}

impl Fence {
    /// Begins a transaction and [checks](Self::check) the permit in it: what it writes commits only under the permit's
    /// generation.
    ///
    /// On MariaDB this is the form whose [idling is bounded](Self::idle_timeout), since that can be set for a connection only,
    /// and somebody has to put it back. It is READ COMMITTED, and `BEGIN IMMEDIATE` on SQLite.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leastlock_lease::{Fence, Hold, Leases, LockName, SqlLeaseStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    /// # leastlock_lease::MIGRATIONS.run(&pool).await?;
    /// # sqlx::raw_sql("CREATE TABLE report (tenant INTEGER PRIMARY KEY, body TEXT)").execute(&pool).await?;
    /// # let leases = Leases::new(SqlLeaseStore::new(&pool));
    /// # let fence = Fence::new("report:tenant-7")?;
    /// # let lease = leases.acquire(&LockName::new("report:tenant-7")?, Hold::renewed(Duration::from_secs(30))).await?;
    /// # lease.run(async |scope| {
    /// let permit = scope.permit()?;
    /// fence.seal(&pool, &permit).await?;
    /// let mut tx = fence.begin(&pool, &permit).await?;
    /// sqlx::query("INSERT INTO report VALUES (7, 'done')").execute(&mut **tx).await?;
    /// tx.commit().await?;
    /// # Ok(()) }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`check`](Self::check); nothing is left open.
    ///
    /// # Cancel safety
    /// Dropped, no transaction stays open.
    pub async fn begin<DB: LeaseSql>(&self, pool: &Pool<DB>, permit: &Permit) -> Result<Protected<DB>, Error> {
        let idle = self.idle_limit(permit.held().hold().ttl());
        let mut protected = Protected::begin(pool, idle).await.map_err(database::<DB>(BEGIN))?;
        self.check(&mut protected, permit).await?;
        Ok(protected)
    }
}

impl<DB: LeaseSql> Protected<DB> {
    /// One that is not checked yet.
    ///
    /// # Cancel safety
    /// Dropped before its end, this goes on, and what it comes to is dropped: rolled back, and put back.
    pub(crate) async fn begin(pool: &Pool<DB>, idle: Duration) -> Result<Self, sqlx::Error> {
        let pool = pool.clone();
        to_its_end(async move { Ok(Self { tx: Some(DB::begin(&pool, idle).await?) }) }).await
    }

    /// Commits, and fails where the transaction was ended by an error that somebody overlooked.
    ///
    /// # Errors
    /// [`Error::Commit`]. Whether the commit took effect may be unknown then; [`run`](crate::Lease::run) knows by the source
    /// and leaves the lease to expire.
    ///
    /// # Cancel safety
    /// Dropped before the `COMMIT` is sent, nothing is kept; after that, the outcome is unknown, but never half.
    pub async fn commit(mut self) -> Result<(), Error> {
        DB::commit(&mut self.tx).await.map_err(|source| Error::Commit { source })
    }
}

impl<DB: LeaseSql> Deref for Protected<DB> {
    type Target = Transaction<'static, DB>;

    fn deref(&self) -> &Self::Target {
        self.tx.as_ref().expect("only what consumes the value takes the transaction out of it")
    }
}

impl<DB: LeaseSql> DerefMut for Protected<DB> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.tx.as_mut().expect("only what consumes the value takes the transaction out of it")
    }
}

impl<DB: LeaseSql> Drop for Protected<DB> {
    fn drop(&mut self) {
        if let Some(tx) = self.tx.take() {
            DB::abandon(tx);
        }
    }
}

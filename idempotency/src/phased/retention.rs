//! How long the audit is kept.

use std::time::Duration;

use leastlock_core::{Statement, begin, commit};
use sqlx::Pool;

use crate::error::Error;
use crate::phased::bounded::{bounded, bounded_commit};
use crate::phased::record::millis;
use crate::phased::settings::Phased;
use crate::phased::sql::PhasedSql;

/// Longer than any rule asks for, and short enough for each engine to reckon with.
const LONGEST: Duration = Duration::from_hours(24 * 36_500);

impl Phased {
    /// Deletes at most `batch` rows of the audit (`leastlock_idempotency_audit`), the oldest first: those of resolutions longer ago than
    /// `older_than`, by the database's clock. Answers how many it deleted; call it until it answers less.
    ///
    /// A sweep of its own, because its retention is: an answer is replayed for a day, and who resolved what is asked about for as
    /// long as your rules say. [`Keys::sweep`](crate::Keys::sweep) leaves the audit alone, and nothing in this crate reads it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leastlock_idempotency::phased::Phased;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    /// # leastlock_idempotency::MIGRATIONS.run(&pool).await?;
    /// let a_year = Duration::from_secs(365 * 86_400);
    /// while Phased::default().sweep_audit(&pool, a_year, 1000).await? == 1000 {}
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the database said; [`Error::NoAnswer`] if it stays silent for `call_limit`, and [`Error::CommitUnknown`] if it does so at
    /// the commit. Calling it again is right after any of them.
    ///
    /// # Cancel safety
    /// One transaction: the batch is deleted whole or not at all.
    pub async fn sweep_audit<DB: PhasedSql>(
        &self,
        pool: &Pool<DB>,
        older_than: Duration,
        batch: u32,
    ) -> Result<u64, Error> {
        let sweep = async {
            let mut tx = begin(pool).await.map_err(Error::database::<DB>)?;
            let sweep = Statement::new(DB::SWEEP_AUDIT).bind(millis(older_than.min(LONGEST))).bind(i64::from(batch));
            let deleted = sweep.execute::<DB>(&mut tx).await.map_err(Error::database::<DB>)?;
            Ok((tx, deleted))
        };
        let (tx, deleted) = bounded::<DB, _>(self.call_limit, sweep).await?;
        bounded_commit::<DB>(self.call_limit, commit(tx)).await.map_err(Error::commit::<DB>)?;
        Ok(deleted)
    }
}

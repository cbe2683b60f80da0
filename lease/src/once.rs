//! Work that is done once a period, and never again once it is done.
//!
//! | step | what it does |
//! |---|---|
//! | [`Leases::once`] | looks whether the period is done, takes its lease, and runs the work |
//! | [`Turn::begin`] | begins the work's transaction, and marks the period in it |
//! | [`Marked::complete`] | commits both |

mod period;
mod turn;

use sqlx::Pool;

use crate::acquire::Acquire;
use crate::error::Error;
use crate::hold::Hold;
use crate::leases::Leases;
use crate::sql::LeaseSql;
use crate::store::{Holder, LeaseStore};
use crate::work_error::WorkError;

pub use period::{Done, Period};
pub use turn::{Completed, Marked, Turn};

/// What became of a period.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Once<T> {
    /// The work ran, and is committed with its mark.
    Ran(T),
    /// It had been done before, or another one came first. Nothing of this call's is committed.
    Done(Done),
    /// Somebody else was at it for as long as was waited.
    Running(Holder),
}

impl<S: LeaseStore> Leases<S> {
    /// Runs `work` for this period, unless that is done: a finished period is never run again.
    ///
    /// The mark of a finished period is a row under the unique key (job, period), written in the transaction of the work. So
    /// both are committed or neither is, whatever dies in between, and of two that run nevertheless one commits. The lease only
    /// keeps the second one from starting, so any store will do, a lossy one as well.
    ///
    /// What `work` does *outside* of that transaction is done at least once: a run that dies before its commit is followed by
    /// another. Give [`Turn::key`] to whoever is called, as the idempotency key.
    ///
    /// It waits up to 10 s for another one that runs the period; [`once_with`](Self::once_with) takes another policy.
    ///
    /// ```
    /// use std::time::Duration;
    /// use leastlock_lease::{Hold, Leases, Once, Period, SqlLeaseStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    /// # leastlock_lease::MIGRATIONS.run(&pool).await?;
    /// # sqlx::raw_sql("CREATE TABLE payout (day TEXT, amount INTEGER)").execute(&pool).await?;
    /// let leases = Leases::new(SqlLeaseStore::new(&pool));
    /// let day = Period::new("daily-settlement", "2026-09-16")?;
    /// for _start in 1..=2 {
    ///     let settled = leases.once(&pool, &day, Hold::renewed(Duration::from_secs(30)), async |turn| {
    ///         let mut tx = turn.begin().await?; // marks the period
    ///         sqlx::query("INSERT INTO payout VALUES ('2026-09-16', 41)").execute(&mut **tx).await?;
    ///         Ok(tx.complete(41).await?) // commits the mark and the work
    ///     });
    ///     match settled.await? {
    ///         Once::Ran(amount) => println!("paid {amount}"),
    ///         Once::Done(done) => println!("paid {:?} ago", done.age),
    ///         Once::Running(holder) => println!("being paid by {holder}"),
    ///     }
    /// }
    /// # let payouts: i64 = sqlx::query_scalar("SELECT count(*) FROM payout").fetch_one(&pool).await?;
    /// # assert_eq!(payouts, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The run takes as long as `hold` allows: **1 h**, unless [`max_hold`](Hold::max_hold) says otherwise. Its transaction may idle between two
    /// statements for as long as the TTL.
    ///
    /// A renewal takes a connection while the transaction keeps one: give a pool that has both one more than there are runs at a time.
    /// On SQLite a renewal waits for the work's transaction if both are in one file: give the lease a TTL that is longer than the
    /// transaction, or keep it elsewhere.
    ///
    /// # Errors
    /// What the work said, and what [`run`](crate::Lease::run) and [`acquire`](Self::acquire_efficiency) say, but no
    /// [`Error::Held`]; [`Error::OtherTurn`] if it answered with what another turn has completed. After one that leaves the outcome of the
    /// commit unknown, call it again: the mark tells.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropped, the work is dropped and its transaction rolled back, unless its commit was under way; the lease is left to
    /// expire.
    pub async fn once<DB, T, F, Fut>(
        &self,
        pool: &Pool<DB>,
        period: &Period,
        hold: Hold,
        work: F,
    ) -> Result<Once<T>, Error>
    where
        DB: LeaseSql,
        F: FnOnce(Turn<DB>) -> Fut,
        Fut: Future<Output = Result<Completed<T>, WorkError>>,
    {
        self.once_with(pool, period, hold, Acquire::default(), work).await
    }

    /// As [`once`](Self::once), with a policy of how to wait for another one that runs the period.
    ///
    /// # Errors
    /// As [`once`](Self::once).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// As [`once`](Self::once).
    pub async fn once_with<DB, T, F, Fut>(
        &self,
        pool: &Pool<DB>,
        period: &Period,
        hold: Hold,
        policy: Acquire,
        work: F,
    ) -> Result<Once<T>, Error>
    where
        DB: LeaseSql,
        F: FnOnce(Turn<DB>) -> Fut,
        Fut: Future<Output = Result<Completed<T>, WorkError>>,
    {
        let patience = policy.longest();
        if let Some(done) = period.done_within(pool, patience).await? {
            return Ok(Once::Done(done));
        }
        let lease = match self.acquire_efficiency_with(period.name(), hold, policy).await {
            Err(Error::Held { holder, .. }) => {
                // It may have been done while this waited, and be held by somebody who looks.
                let done = period.done_within(pool, patience).await?;
                return Ok(done.map_or(Once::Running(holder), Once::Done));
            }
            lease => lease?,
        };
        let ran = lease.run(|scope| async move {
            // Before the work does anything outside of its transaction.
            if let Some(done) = period.done(pool).await? {
                return Err(Error::PeriodDone { name: period.name().clone(), done }.into());
            }
            let turn = Turn::new(pool, period, scope);
            let number = turn.number();
            match work(turn).await?.of(number) {
                Some(value) => Ok(value),
                None => Err(Error::OtherTurn { name: period.name().clone() }.into()),
            }
        });
        match ran.await {
            Ok(value) => Ok(Once::Ran(value)),
            Err(Error::PeriodDone { name, done }) if name == *period.name() => Ok(Once::Done(done)),
            Err(error) => Err(error),
        }
    }
}

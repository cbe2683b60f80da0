//! A period of a job, and whether it is done.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use leastlock_core::{Statement, classify};
use sqlx::Pool;
use tokio::time::{Instant, timeout_at};

use crate::error::Error;
use crate::lock_name::LockName;
use crate::sql::{LeaseSql, OnceMark};
use crate::store::milliseconds;
use crate::token::{OwnerHash, OwnerNonce};

const READ: &str = "read whether the period is done";
/// Before which there were no marks.
const LONGEST_AGE: Duration = Duration::from_hours(24 * 365 * 100);

const FORGET: &str = "forget old periods";

/// One period of one job: what is to be done once.
///
/// ```
/// use leastlock_lease::Period;
///
/// let day = Period::new("daily-settlement", "2026-09-16")?;
/// assert_eq!(day.name().as_str(), "job:daily-settlement:2026-09-16");
/// let of_a_tenant = Period::new("report:tenant-7", "2026-09")?;
/// assert!(Period::new("report", "2026:09").is_err());
/// # Ok::<(), leastlock_lease::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Period {
    /// `job:` and the job and period, which are parts of it.
    name: LockName,
}

/// A period that is done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Done {
    /// The short hash of the run that has done it.
    pub owner: OwnerHash,
    /// How long its transaction took.
    pub took: Duration,
    /// How long ago it was completed.
    pub age: Duration,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "done by {} {:.1?} ago, in {:.1?}", self.owner, self.age, self.took)
    }
}

impl Period {
    /// The period of a job. The job has one or two parts joined by `:`, the period one, each of ASCII letters, digits, `.`, `_`
    /// and `-`; with `job:` in front both are the [`LockName`] of the period, of at most 200 bytes.
    ///
    /// # Errors
    /// [`Error::LockName`] says which rule they break.
    pub fn new(job: impl AsRef<str>, period: impl AsRef<str>) -> Result<Self, Error> {
        if period.as_ref().contains(':') {
            return Err(Error::LockName { given: period.as_ref().into(), fault: "a period is one part" });
        }
        Ok(Self { name: LockName::new(format!("job:{}:{}", job.as_ref(), period.as_ref()))? })
    }

    /// The lock under which it is run.
    #[must_use]
    pub const fn name(&self) -> &LockName {
        &self.name
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &str {
        self.parts().0
    }

    /// The period of the job.
    #[must_use]
    pub fn period(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        // Both colons are there since `new`.
        self.name.as_str()["job:".len()..].rsplit_once(':').unwrap_or_default()
    }

    /// Whether it is done. A plain look, which needs no lease and works while the application is down.
    ///
    /// # Errors
    /// [`Error::Database`].
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn done<DB: LeaseSql>(&self, pool: &Pool<DB>) -> Result<Option<Done>, Error> {
        let failed = database::<DB>(READ);
        let mut connection = pool.acquire().await.map_err(&failed)?;
        self.read::<DB>(&mut connection).await.map_err(failed)
    }

    /// For as long as a lease is waited for: a database that is away keeps nobody for as long as its pool would.
    pub(super) async fn done_within<DB: LeaseSql>(
        &self,
        pool: &Pool<DB>,
        limit: Duration,
    ) -> Result<Option<Done>, Error> {
        let read = async {
            let by = Instant::now() + limit;
            let mut connection = timeout_at(by, pool.acquire()).await.map_err(|_| sqlx::Error::PoolTimedOut)??;
            let slow = |_elapsed| Err(sqlx::Error::Io(ErrorKind::TimedOut.into()));
            timeout_at(by, self.read::<DB>(&mut connection)).await.unwrap_or_else(slow)
        };
        read.await.map_err(database::<DB>(READ))
    }

    async fn read<DB: LeaseSql>(&self, connection: &mut DB::Connection) -> Result<Option<Done>, sqlx::Error> {
        let read = Statement::new(DB::ONCE_DONE).bind(self.job()).bind(self.period());
        let Some(row) = read.fetch_optional::<DB>(connection).await? else { return Ok(None) };
        let duration = |index| Ok::<_, sqlx::Error>(Duration::from_millis(row.int(index)?.unsigned_abs()));
        Ok(Some(Done { owner: OwnerHash::of(&row.bytes(0)?), took: duration(1)?, age: duration(2)? }))
    }

    /// Deletes up to `limit` marks of periods that were completed longer ago than `older_than`, the oldest first; answers how
    /// many. A period whose mark is gone would be *run again* if it were asked for, so keep marks for longer than any schedule looks
    /// back. Call it until it answers less than `limit`.
    ///
    /// # Errors
    /// [`Error::Write`].
    ///
    /// # Cancel safety
    /// Dropped, a batch is deleted or not.
    pub async fn forget<DB: LeaseSql>(pool: &Pool<DB>, older_than: Duration, limit: u32) -> Result<u64, Error> {
        let failed = |source: sqlx::Error| Error::Write {
            operation: FORGET,
            retryable: classify::<DB>(&source).is_retryable(),
            source,
        };
        let mut connection = pool.acquire().await.map_err(failed)?;
        let forget =
            Statement::new(DB::ONCE_FORGET).bind(milliseconds(older_than.min(LONGEST_AGE))).bind(i64::from(limit));
        forget.execute::<DB>(&mut connection).await.map_err(failed)
    }

    pub(super) fn mark<'a>(&'a self, owner: &'a OwnerNonce) -> OnceMark<'a> {
        OnceMark { job: self.job(), period: self.period(), owner: &owner.as_bytes()[..] }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.name, f)
    }
}

/// Makes an [`Error::Database`] of what the driver said.
pub(super) fn database<DB: LeaseSql>(operation: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |source| Error::Database { operation, retryable: classify::<DB>(&source).is_retryable(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_one_or_two_parts_and_periods_one() {
        let period = Period::new("report:tenant-7", "2026-09").unwrap();
        assert_eq!((period.job(), period.period()), ("report:tenant-7", "2026-09"));
        for (job, period) in [("", "x"), ("x", ""), ("a:b:c", "d"), ("a", "b:c"), ("a b", "c"), ("a", "b/c")] {
            assert!(Period::new(job, period).is_err(), "{job:?} {period:?}");
        }
    }
}

//! The resource's side: it knows the newest generation, and refuses all others.
//!
//! | step | what it does |
//! |---|---|
//! | [`Fence::seal`] | registers the generation; the new holder's first act |
//! | [`Fence::check`] | protects one transaction of the caller's |
//! | [`Fence::begin`] | begins one that is protected |

mod blocker;
#[cfg(feature = "tower")]
mod brought;
mod check;
mod forced;
mod protected;
mod seal;

use std::fmt;
use std::time::Duration;

use leastlock_core::{Statement, classify};
use sqlx::Pool;

use crate::error::Error;
use crate::permit::Permit;
use crate::sql::{LONGEST_SETTING, LeaseSql, Mark};
use crate::token::FencingToken;

pub use blocker::Blocker;
#[cfg(feature = "tower")]
pub(crate) use brought::Brought;
pub use check::Refusal;
pub use protected::Protected;
pub use seal::Sealed;

/// The guard of one protected resource, in the database where the resource is.
///
/// What holds: once a generation is sealed, a transaction of an older one that has not passed its [`check`](Self::check)
/// commits nothing, and one that had passed it has ended before the seal was done. Two owners of the same number (as after
/// the restore of a lock store) are told apart by their nonce, and the second is refused.
///
/// What does not: a late holder's transaction is *not* refused while the new holder has not sealed yet; therefore seal first,
/// then read, then write. A writer that does not check is not stopped by anything. A permit can be used for any number of
/// transactions, so that a repeated `balance = balance + 10` applies twice; an operation that must apply once needs its own
/// identifier under a unique key in the same transaction.
///
/// | limit | default |
/// |---|---|
/// | resource's name | 200 bytes |
/// | idling in a checked transaction, after which the server ends it (PostgreSQL; MariaDB: in one of [`begin`](Self::begin)) | the lease's TTL |
/// | wait of a seal for transactions that were checked before | twice the lease's TTL |
///
/// ```
/// use std::time::Duration;
/// use leastlock_lease::{Fence, Hold, Leases, LockName, SqlLeaseStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # leastlock_lease::MIGRATIONS.run(&pool).await?;
/// # sqlx::raw_sql("CREATE TABLE report (tenant INTEGER PRIMARY KEY, body TEXT)").execute(&pool).await?;
/// let leases = Leases::new(SqlLeaseStore::new(&pool));
/// let fence = Fence::new("report:tenant-7")?;
/// let lease = leases.acquire(&LockName::new("report:tenant-7")?, Hold::renewed(Duration::from_secs(30))).await?;
/// lease.run(async |scope| {
///     let permit = scope.permit()?;
///     fence.seal(&pool, &permit).await?;
///     let mut tx = pool.begin().await?;
///     fence.check(&mut tx, &permit).await?;
///     sqlx::query("INSERT INTO report VALUES (7, 'done')").execute(&mut *tx).await?;
///     Ok(tx.commit().await?)
/// }).await?;
/// assert_eq!(fence.generation(&pool).await?.map(|generation| generation.value()), Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Fence {
    resource: Box<str>,
    idle_timeout: Option<Duration>,
    seal_limit: Option<Duration>,
}

impl Fence {
    /// The longest name of a resource, in bytes.
    pub const MAX_RESOURCE_BYTES: usize = 200;

    /// The fence of this resource: any name of 1 to 200 bytes without control characters. All who write to the resource must
    /// use the same.
    ///
    /// # Errors
    /// [`Error::Resource`] says which rule the name breaks.
    pub fn new(resource: impl Into<String>) -> Result<Self, Error> {
        let resource: String = resource.into();
        if resource.is_empty() || resource.len() > Self::MAX_RESOURCE_BYTES {
            return Err(Error::Resource { given: resource.into(), fault: "it must have 1 to 200 bytes" });
        }
        if resource.chars().any(char::is_control) {
            return Err(Error::Resource { given: resource.into(), fault: "it must not have control characters" });
        }
        Ok(Self { resource: resource.into_boxed_str(), idle_timeout: None, seal_limit: None })
    }

    /// How long a checked transaction may idle before the server ends it (PostgreSQL: at least 1 ms; MariaDB: whole seconds,
    /// rounded up, and only in a transaction of [`begin`](Self::begin)). A stricter setting of the session stays. It bounds how
    /// long a stopped holder can keep the next one from sealing, and must be longer than the work's longest pause between two
    /// statements; give a fence with a long one a [`seal_limit`](Self::seal_limit) that is longer.
    #[must_use]
    pub const fn idle_timeout(mut self, idle_timeout: Duration) -> Self {
        self.idle_timeout = Some(idle_timeout);
        self
    }

    /// How long a seal waits for transactions that were checked before.
    #[must_use]
    pub const fn seal_limit(mut self, seal_limit: Duration) -> Self {
        self.seal_limit = Some(seal_limit);
        self
    }

    /// The resource's name.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The newest generation that was sealed, or is being sealed, at the resource. As a [floor](crate::Acquire::floor) it
    /// keeps a restored lock store from issuing a token that the resource has seen.
    ///
    /// # Errors
    /// [`Error::Database`].
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn generation<DB: LeaseSql>(&self, pool: &Pool<DB>) -> Result<Option<FencingToken>, Error> {
        const READ: &str = "read the sealed generation";
        let mut connection = pool.acquire().await.map_err(database::<DB>(READ))?;
        let newest = self.newest::<DB>(&mut connection).await.map_err(database::<DB>(READ))?;
        Ok(newest.map(|newest| newest.generation))
    }

    async fn newest<DB: LeaseSql>(&self, connection: &mut DB::Connection) -> Result<Option<Newest>, sqlx::Error> {
        let row = Statement::new(DB::SEALED).bind(&*self.resource).fetch_optional::<DB>(connection).await?;
        let Some(row) = row else { return Ok(None) };
        let guard = row.optional_int(2)?.and_then(FencingToken::new);
        let owner = row.bytes(1)?;
        Ok(FencingToken::new(row.int(0)?).map(|generation| Newest { generation, owner, guard }))
    }

    fn mark<'a>(&'a self, permit: &'a Permit) -> Mark<'a> {
        Mark { resource: &self.resource, generation: permit.token().value(), owner: &permit.owner().as_bytes()[..] }
    }

    fn idle_limit(&self, ttl: Duration) -> Duration {
        self.idle_timeout.unwrap_or(ttl).clamp(Duration::from_millis(1), LONGEST_SETTING)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)
    }
}

/// What stands at the gate, and in the guard row.
struct Newest {
    generation: FencingToken,
    owner: Vec<u8>,
    guard: Option<FencingToken>,
}

/// Makes an [`Error::Database`] of what the driver said.
fn database<DB: LeaseSql>(operation: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |source| Error::Database { operation, retryable: classify::<DB>(&source).is_retryable(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_checked_names() {
        assert!(Fence::new("report:tenant-7").is_ok());
        assert!(Fence::new("").is_err());
        assert!(Fence::new("a\0b").is_err());
        assert!(Fence::new("x".repeat(201)).is_err());
    }
}

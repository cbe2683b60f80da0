//! Advisory locks: the server's own, kept by a transaction or by a session.

mod engine;
mod session;
mod sessions;
#[cfg(feature = "postgres")]
mod transaction;

use std::time::Duration;

use leastlock_core::Dialect;
use sha2::{Digest, Sha256};
use sqlx::Pool;
use tokio::sync::watch;

use crate::capabilities::{Capabilities, FloorRule, LeaseEnding, Order, WakeUp};
use crate::lock_name::LockName;
use crate::store::{Claim, FairStore, Grant, LeaseStore, Pause, Release, Renewal, StoreError, Waiter, milliseconds};

use session::{Progress, Session, is_waiting};
use sessions::Sessions;

pub use engine::AdvisorySql;
#[cfg(feature = "postgres")]
pub use transaction::lock_in_transaction;

/// The lock store of the server's own locks, each kept by a session: advisory locks of PostgreSQL, `GET_LOCK` of MariaDB. For
/// [`EfficiencyLease`](crate::EfficiencyLease)s only, by type: it has no fencing token.
///
/// It needs no table and writes nothing. What that costs:
///
/// - **A connection for each lease, and for each waiter.** It leaves the pool, which opens another in its place, and is closed at
///   the end; so a lock is never given back to the pool with a connection.
/// - **A lease lasts as long as its session.** The session of a process that dies ends with it, at once. That of one that is stopped is
///   ended by the server when it has sent nothing for a TTL (MariaDB rounds up to whole seconds; before PostgreSQL 14 it goes
///   on until the connection breaks). And if the connection breaks, another may get the lock at once, while its holder hears of
///   that at the next renewal only.
/// - **No pooler in between that shares sessions**, such as `PgBouncer`'s transaction pooling. A renewal asks whether its session has
///   the lock, and so finds out late.
///
/// Waiters stand in the server's queue, in the order in which they came, over all processes.
///
/// The key is a hash of namespace and name; of 64 bits on PostgreSQL, where locks belong to the database. On MariaDB they belong to
/// the whole server.
///
/// ```no_run
/// use std::time::Duration;
/// use leastlock_lease::{AdvisoryLeaseStore, Hold, Leases, LockName};
///
/// # async fn example(pool: sqlx::Pool<sqlx::Postgres>) -> Result<(), Box<dyn std::error::Error>> {
/// let leases = Leases::new(AdvisoryLeaseStore::new(&pool));
/// let lease = leases.acquire_efficiency(&LockName::new("cache:prices")?, Hold::renewed(Duration::from_secs(30))).await?;
/// # drop(lease);
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0277
/// fn fenced(_: impl leastlock_lease::FencedStore) {}
/// fn refused(store: leastlock_lease::AdvisoryLeaseStore<sqlx::Postgres>) {
///     fenced(store);
/// }
/// ```
#[derive(Debug)]
pub struct AdvisoryLeaseStore<DB: Dialect> {
    pool: Pool<DB>,
    namespace: Box<str>,
    sessions: Sessions,
}

impl<DB: AdvisorySql> AdvisoryLeaseStore<DB> {
    /// A store on the server of `pool`.
    #[must_use]
    pub fn new(pool: &Pool<DB>) -> Self {
        Self { pool: pool.clone(), namespace: DEFAULT_NAMESPACE.into(), sessions: Sessions::default() }
    }

    /// Another first part of every key, for applications that share a database (on MariaDB: a server).
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<Box<str>>) -> Self {
        self.namespace = namespace.into();
        self
    }

    fn lock(&self, claim: Claim<'_>) -> Lock {
        let key = key(&self.namespace, claim.name);
        // What the session's name has room for: 63 bytes on PostgreSQL.
        let about = format!("{} {}", milliseconds(claim.ttl), claim.job.unwrap_or_default());
        Lock {
            key,
            text: format!("leastlock:{key:016x}"),
            ttl: claim.ttl,
            owner: claim.nonce.hash().to_string(),
            about,
        }
    }

    /// Whether the lock is this session's, as another one sees it.
    async fn has(&self, claim: Claim<'_>, session: &Session) -> Result<bool, sqlx::Error> {
        let Some(number) = session.number() else { return Ok(false) };
        let mut connection = self.pool.acquire().await?;
        DB::stands(&mut connection, &self.lock(claim), number).await
    }

    /// Who has it now, for the answer to one who does not.
    async fn held(&self, claim: Claim<'_>) -> Result<Grant<()>, StoreError> {
        let holder = async {
            let mut connection = self.pool.acquire().await?;
            DB::holder(&mut connection, &self.lock(claim)).await
        };
        Ok(Grant::Held(holder.await.map_err(store_error)?))
    }
}

const DEFAULT_NAMESPACE: &str = "leastlock";

/// What a session is to take, and what it says of itself then.
#[allow(dead_code, reason = "not every engine has a use for all of it")]
#[derive(Debug, Clone)]
pub struct Lock {
    key: i64,
    /// The same for engines whose locks have names.
    text: String,
    ttl: Duration,
    owner: String,
    about: String,
}

fn key(namespace: &str, name: &LockName) -> i64 {
    let digest = Sha256::new().chain_update(namespace).chain_update([0]).chain_update(name.as_str()).finalize();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(bytes)
}

impl<DB: AdvisorySql> LeaseStore for AdvisoryLeaseStore<DB> {
    type Token = ();
    type Waiter = AdvisoryWaiter;

    const CAPABILITIES: Capabilities = Capabilities::PLAIN
        .order(Order::Fifo)
        .wake_up(WakeUp::Woken)
        .ending(LeaseEnding::WithSession)
        .floor(FloorRule::NoToken);

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<()>, StoreError> {
        if self.sessions.is_spent(claim) {
            return self.held(claim).await;
        }
        let open = || session::open(self.pool.clone(), self.lock(claim), claim.name.clone());
        let session = self.sessions.of(claim, open);
        match session.answered().await {
            // It may have been granted some time ago, and be over.
            Progress::Granted => match session.renew().await {
                Some(Ok(true)) => Ok(Grant::Granted { token: (), ttl: claim.ttl }),
                ended => {
                    self.sessions.drop_of(claim);
                    let ended = ended.and_then(Result::err).map(StoreError::retryable);
                    Err(ended.unwrap_or_else(|| StoreError::retryable("the session of the lock has ended")))
                }
            },
            Progress::Ended => {
                self.sessions.drop_of(claim);
                Err(session.error().unwrap_or_else(|| StoreError::retryable("the session of the lock has ended")))
            }
            Progress::Connects | Progress::Waits => self.held(claim).await,
        }
    }

    fn waiter(&self, claim: Claim<'_>) -> AdvisoryWaiter {
        AdvisoryWaiter(self.sessions.progress(claim))
    }

    async fn renew(&self, claim: Claim<'_>, (): ()) -> Result<Renewal, StoreError> {
        let Some(session) = self.sessions.find(claim) else { return Ok(Renewal::NotOwner) };
        match session.renew().await {
            Some(Ok(true)) => Ok(Renewal::Renewed { ttl: claim.ttl }),
            // A broken connection is a definite no: the server ends its session, if it has not, and nobody will ever answer.
            Some(_) | None => Ok(Renewal::NotOwner),
        }
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        let Some(session) = self.sessions.find(claim) else {
            let repeated = self.sessions.was_released(claim);
            if !self.sessions.is_spent(claim) {
                self.sessions.release(claim, false);
            }
            return Ok(if repeated { Release::Released } else { Release::NotOwner });
        };
        let released = match session.release().await {
            Some(Ok(released)) => released,
            // Its connection is broken, and the server may not have noticed.
            Some(Err(_)) | None if self.has(claim, &session).await.map_err(store_error)? => {
                return Err(StoreError::retryable(
                    "the connection of the lock's session is broken, and the lock not yet free",
                ));
            }
            Some(Err(_)) | None => false,
        };
        self.sessions.release(claim, released);
        Ok(if released { Release::Released } else { Release::NotOwner })
    }

    /// Closes the session then.
    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        if let Some(session) = self.sessions.drop_of(claim) {
            session.let_expire(remaining);
        }
    }
}

impl<DB: AdvisorySql> FairStore for AdvisoryLeaseStore<DB> {}

/// A waiter for an advisory lock: its session waits in the server's queue.
#[derive(Debug)]
pub struct AdvisoryWaiter(Option<watch::Receiver<Progress>>);

impl Waiter for AdvisoryWaiter {
    async fn wait(&mut self, pause: Pause) {
        match &mut self.0 {
            Some(progress) => {
                let over = progress.wait_for(|progress| !is_waiting(*progress));
                // Over, the next attempt looks.
                let _over = tokio::time::timeout(pause.relying, over).await;
            }
            None => tokio::time::sleep(pause.poll).await,
        }
    }
}

fn store_error(error: sqlx::Error) -> StoreError {
    StoreError::retryable(error)
}

//! Runs a whole unit of work again when it met another one.

use std::time::Duration;

use leastlock_core::{Backoff, Dialect};
use sqlx::Pool;

use crate::error::Error;

pub use attempt::{Attempt, Committed};
pub use attempts::Attempts;
pub use conflict_class::ConflictClass;
pub use outcome::{MayConflict, RetryError};

mod attempt;
mod attempts;
mod conflict_class;
mod outcome;

tokio::task_local! {
    /// Set while [`Retry::run`] runs a unit of work in this task.
    static IN_UNIT: ();
}

/// Runs a unit of work in a fresh transaction until it commits, for as long as what stands against it is a conflict.
///
/// A conflict is a stale or missing version ([`Conflict`](crate::Conflict)), a serialization failure, a deadlock, or SQLite's
/// one write lock being taken: in each case another unit of work was there, and a rerun reads what it has done. A refused
/// [`transition`](crate::transition::transition) is none, except for a stale version: the row's state is an answer. Whether an
/// error is one, the unit's error type says ([`MayConflict`]). Everything else ends the retry at once, and so does a commit
/// whose reply was lost ([`Error::CommitUnknown`]): it may have taken effect, and running it again could do it twice.
///
/// Between attempts it waits a random time with full jitter ([`Backoff`]). It gives up after a number of attempts (10) or a time
/// (10 s), and says with which conflict and what can be done about it: a row so hot, for one, is no matter for optimistic control.
///
/// # What it does not promise
/// - Only what the transaction writes is undone. A mail or a call to another service happens once per attempt: do it
///   after the commit, or through an outbox.
/// - The time limit starts no new attempt; it does not stop one that runs.
///
/// # Never inside a transaction
/// A retry inside an open transaction would repeat a part of a unit whose other part was decided on what is no longer
/// so, on PostgreSQL in a transaction that is aborted and on SQLite with a snapshot that never gets newer. So there is
/// nothing here that takes a transaction: a retry takes the pool. A conflict inside a function that works in its
/// caller's transaction is passed up, to the one retry that owns the unit. [`run`](Self::run) inside a unit of `run` is
/// [`RetryError::Nested`]; this is seen within one task, not in tasks spawned by it.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leastlock_occ::{Attempt, Conflict, MayConflict, Retry, RetryError, Version, Versioned};
///
/// #[derive(Clone, Versioned)]
/// #[versioned(table = "account", key = "id", version = "version")]
/// struct Account {
///     id: String,
///     balance: i64,
///     version: Version,
/// }
///
/// #[derive(Debug, thiserror::Error, MayConflict)]
/// enum PayError {
///     #[error("there is no such account")]
///     NoAccount,
///     #[error(transparent)]
///     Conflict(#[from] Conflict),
///     #[error(transparent)]
///     Database(#[from] leastlock_occ::Error),
/// }
///
/// // `async move` with captures of its own, so that it can be spawned: see below.
/// async fn pay(pool: sqlx::SqlitePool, id: String, amount: i64) -> Result<i64, RetryError<PayError>> {
///     Retry::default()
///         .run(&pool, async move |mut attempt: Attempt<sqlx::Sqlite>| {
///             let account = Account::load(attempt.connection(), &id).await?.ok_or(PayError::NoAccount)?;
///             let paid = account.update(attempt.connection(), |a| a.balance -= amount).await?.into_result()?;
///             Ok::<_, PayError>(attempt.commit(paid.balance).await?)
///         })
///         .await
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}/test?mode=rwc", folder.path().display())).await?;
/// # sqlx::query("CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER NOT NULL, version INTEGER NOT NULL)").execute(&pool).await?;
/// # sqlx::query("INSERT INTO account VALUES ('a', 100, 5)").execute(&pool).await?;
/// let clients = (0..8).map(|_| tokio::spawn(pay(pool.clone(), "a".to_owned(), 10)));
/// for client in clients.collect::<Vec<_>>() {
///     assert!(client.await??.is_positive());
/// }
/// # let account = Account::load(&mut *pool.acquire().await?, "a").await?.unwrap();
/// # assert_eq!((account.balance, account.version), (20, Version::new(13)));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
///
/// # In a spawned task or an axum handler
/// Both want a future that is `Send`. An async closure that borrows what is around it (`async |attempt|` with a `&id` or an `amount`
/// of the function that it stands in) does not make one, though it is right in `main` and in tests: *implementation of `Send` is
/// not general enough*, says rustc 1.95, at `tokio::spawn` or at the route. It is a limit of the compiler's. Two forms have it not:
///
/// - `async move |attempt|`, with captures of its own, as above: clone before what is needed after. Its body may borrow from them.
/// - The loop, which captures nothing. `place` is an ordinary `async fn` that takes the [`Attempt`] by value, and may borrow:
///
/// ```
/// # use leastlock_core::Dialect;
/// # use leastlock_occ::{Attempt, Committed, Error, MayConflict, Retry, RetryError};
/// # async fn place<DB: Dialect>(attempt: Attempt<DB>, order: &str) -> Result<Committed<usize>, Error> {
/// #     attempt.commit(order.len()).await
/// # }
/// # async fn example<DB: Dialect>(pool: sqlx::Pool<DB>, order: &str) -> Result<usize, RetryError<Error>> {
/// let mut attempts = Retry::default().start(&pool);
/// let receipt = loop {
///     let attempt = attempts.next().await?;
///     if let Some(receipt) = attempts.settle(place(attempt, order).await)? {
///         break receipt;
///     }
/// };
/// # Ok(receipt)
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a retry does nothing until it is run or started"]
pub struct Retry {
    attempts: u32,
    within: Duration,
    backoff: Backoff,
    begin: Option<&'static str>,
}

impl Retry {
    /// At most so many attempts, the first included; at least one is made. 10 by default.
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Starts no attempt later than so long after the first. 10 s by default.
    pub const fn within(mut self, limit: Duration) -> Self {
        self.within = limit;
        self
    }

    /// How long to wait between attempts. From 5 ms to 500 ms by default.
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The statement that begins each transaction, such as `BEGIN ISOLATION LEVEL SERIALIZABLE` on PostgreSQL.
    /// [`Dialect::BEGIN_WRITE`] by default, which is READ COMMITTED, and SQLite's `BEGIN IMMEDIATE`.
    ///
    /// The default also has PostgreSQL end a transaction that idles for 10 s, with what a stopped process has locked in it. A
    /// statement of yours does so only if it says so, or if the session's `idle_in_transaction_session_timeout` does.
    pub const fn begin_with(mut self, statement: &'static str) -> Self {
        self.begin = Some(statement);
        self
    }

    /// Runs `work` until it commits. To be spawned it is `async move` with captures of its own; see [`Retry`]. It is given a fresh [`Attempt`] each time, and answers what [`Attempt::commit`] gave it; an
    /// attempt that it drops is rolled back.
    ///
    /// # Errors
    /// [`RetryError::Failed`] with the first error that is no conflict; [`RetryError::Exhausted`] with the last conflict;
    /// [`RetryError::Nested`].
    ///
    /// # Cancel safety
    /// Dropped, the attempt under way is rolled back, unless its commit had begun: then the outcome is unknown. None
    /// follows.
    pub async fn run<DB, T, E, W>(self, pool: &Pool<DB>, mut work: W) -> Result<T, RetryError<E>>
    where
        DB: Dialect,
        E: MayConflict<DB> + From<Error>,
        W: AsyncFnMut(Attempt<DB>) -> Result<Committed<T>, E>,
    {
        let mut attempts = self.start(pool);
        loop {
            let attempt = attempts.next().await?;
            let outcome = IN_UNIT.scope((), work(attempt)).await;
            if let Some(value) = attempts.settle(outcome)? {
                return Ok(value);
            }
        }
    }

    /// The attempts one by one, for a loop of the caller's own.
    pub fn start<DB: Dialect, E: MayConflict<DB> + From<Error>>(self, pool: &Pool<DB>) -> Attempts<DB, E> {
        Attempts::new(self, pool.clone())
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 10, within: Duration::from_secs(10), backoff: Backoff::default(), begin: None }
    }
}

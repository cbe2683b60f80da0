//! The bound of every call of the database: a connection that is open and silent must not hold anybody for ever, nor its place in
//! the pool.

use std::io;
use std::pin::pin;
use std::time::Duration;

use leastlock_core::{Dialect, Engine};

use crate::error::Error;

/// What `work` comes to within `limit`. [`Error::NoAnswer`] otherwise: what it did is then unknown, and its connection is closed.
pub(crate) async fn bounded<DB: Dialect, T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    within::<DB, _>(limit, work).await.unwrap_or(Err(Error::NoAnswer { limit }))
}

/// What a commit comes to within `limit`. One that is not answered is unknown, as if its connection had been lost.
pub(crate) async fn bounded_commit<DB: Dialect>(
    limit: Duration,
    commit: impl Future<Output = Result<(), sqlx::Error>>,
) -> Result<(), sqlx::Error> {
    let silent =
        || Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, "the commit was not answered in time")));
    within::<DB, _>(limit, commit).await.unwrap_or_else(silent)
}

/// What `work` comes to; `None` if it does not within `limit`. A connection of a pool that it has by then is closed.
pub(crate) async fn within<DB: Dialect, T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(Some(work));
    let answer = match work.as_mut().as_pin_mut() {
        Some(work) => tokio::time::timeout(limit, work).await.ok(),
        None => None,
    };
    if answer.is_none() {
        closing::<DB>(|| work.set(None));
    }
    answer
}

/// Drops `silent`, and closes what it has of a pool: see [`closing`].
pub(crate) fn close<DB: Dialect>(silent: impl Sized) {
    closing::<DB>(|| drop(silent));
}

/// Runs `give_up`. A connection of a pool that is dropped in it is closed at once, and its place in the pool is free.
///
/// sqlx gives a dropped connection back in a task of the runtime in which it is dropped, and pings it first. A connection that is
/// silent answers no ping, so it would keep its place until TCP gives up, for a quarter of an hour or more. Here that runtime is one
/// that ends before the task has begun, which drops the connection and frees its place (sqlx provides for runtimes that end:
/// `PoolConnection::return_to_pool`). The same goes for a `BEGIN` that would be brought to its end in a task.
///
/// SQLite has no network between, and a database in memory ends with its connection: there nothing is closed.
fn closing<DB: Dialect>(give_up: impl FnOnce()) {
    if DB::ENGINE == Engine::Sqlite {
        return give_up();
    }
    // Without one more runtime (no more file descriptors, say) there is nothing better than the ping.
    let Ok(ending) = tokio::runtime::Builder::new_current_thread().build() else { return give_up() };
    let handle = ending.handle().clone();
    let _entered = handle.enter();
    give_up();
    ending.shutdown_background();
}

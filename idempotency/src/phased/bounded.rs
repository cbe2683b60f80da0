//! The bound of every call of the database: a connection that is open and silent must not hold anybody for ever.

use std::io;
use std::time::Duration;

use crate::error::Error;

/// What `work` comes to within `limit`. [`Error::NoAnswer`] otherwise: what it did is then unknown.
pub(crate) async fn bounded<T>(limit: Duration, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(Error::NoAnswer { limit }))
}

/// What a commit comes to within `limit`. One that is not answered is unknown, as if its connection had been lost.
pub(crate) async fn bounded_commit(
    limit: Duration,
    commit: impl Future<Output = Result<(), sqlx::Error>>,
) -> Result<(), sqlx::Error> {
    let silent =
        || Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, "the commit was not answered in time")));
    tokio::time::timeout(limit, commit).await.unwrap_or_else(|_| silent())
}

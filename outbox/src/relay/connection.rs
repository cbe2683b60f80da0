//! A connection that may never answer.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use leastlock_core::{Engine, Statement};
use sqlx::Pool;
use sqlx::pool::PoolConnection;
use uuid::Uuid;

use crate::error::Error;
use crate::sql::OutboxSql;

/// How long a transaction that holds locks may be silent at most, in milliseconds: as long as `begin_write.sql` says, where an engine can.
pub(crate) const LONGEST_IDLE_MS: i64 = 10_000;

/// A connection on loan from the pool. Unless it is given back it is closed when dropped, so that one in the middle of a
/// statement is never handed out again, nor waited for: sqlx would ask it for an answer first, which may not come.
#[derive(Debug)]
pub(crate) struct Lent<DB: OutboxSql> {
    connection: Option<PoolConnection<DB>>,
    /// It has settings of its own, and is closed instead of given back.
    spoilt: bool,
}

impl<DB: OutboxSql> Lent<DB> {
    pub(crate) async fn from(pool: &Pool<DB>) -> Result<Self, Error> {
        let connection = Some(pool.acquire().await.map_err(Error::database::<DB>)?);
        Ok(Self { connection, spoilt: false })
    }

    /// One to read with, and its number, where the engine makes a difference; such a one is never given back.
    pub(crate) async fn reader(pool: &Pool<DB>) -> Result<(Self, i64), Error> {
        let mut connection = Self::from(pool).await?;
        let number = i64::try_from(Uuid::new_v4().as_u128() >> 66).unwrap_or_else(|_| unreachable!("62 bits"));
        if let Some(reader) = DB::READER {
            let reader = Statement::new(reader).bind(number);
            reader.fetch_optional::<DB>(&mut connection).await.map_err(Error::database::<DB>)?;
        }
        Ok((connection, number))
    }

    /// One for a transaction that holds locks from one message to the next. A client that stops in it must not hold them for
    /// longer than `idle_ms`: the server sees to that. Where that takes a setting of the connection, it is never given back.
    pub(crate) async fn holding(pool: &Pool<DB>, idle_ms: i64) -> Result<Self, Error> {
        let mut connection = Self::from(pool).await?;
        if let Some(bound) = DB::BOUND {
            Statement::new(bound).bind(idle_ms).execute::<DB>(&mut connection).await.map_err(Error::database::<DB>)?;
            connection.spoilt = true;
        }
        Ok(connection)
    }

    /// Back to the pool, once it has answered.
    pub(crate) fn give_back(mut self) {
        if !self.spoilt {
            drop(self.connection.take());
        }
    }
}

impl<DB: OutboxSql> Deref for Lent<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        self.connection.as_ref().unwrap_or_else(|| unreachable!("it is taken only where the value ends"))
    }
}

impl<DB: OutboxSql> DerefMut for Lent<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        self.connection.as_mut().unwrap_or_else(|| unreachable!("it is taken only where the value ends"))
    }
}

impl<DB: OutboxSql> Drop for Lent<DB> {
    fn drop(&mut self) {
        // SQLite always answers, and a database in memory would end with its connection.
        if let (Some(connection), false) = (&mut self.connection, DB::ENGINE == Engine::Sqlite) {
            connection.close_on_drop();
        }
    }
}

/// Has the server end the open transaction once it hears nothing of it for so long, where [`Lent::holding`] does not see to it.
pub(crate) async fn bound_transaction<DB: OutboxSql>(
    connection: &mut DB::Connection,
    idle_ms: i64,
) -> Result<(), sqlx::Error> {
    let Some(bound) = DB::BOUND_TRANSACTION else { return Ok(()) };
    Statement::new(bound).bind(idle_ms).execute::<DB>(connection).await.map(drop)
}

/// What the database answers, if it does within `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    request: &'static str,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(limit, answer).await.unwrap_or(Err(Error::NoAnswer { request, limit }))
}

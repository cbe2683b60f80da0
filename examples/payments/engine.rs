//! The engines that the service runs on.

use std::str::FromStr;
use std::time::Duration;

use leastlock::idempotency::phased::PhasedSql;
use leastlock::occ::{self, Transitioned};
use leastlock::outbox::OutboxSql;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Pool, Postgres, Sqlite, Transaction};

use crate::service::shop::OrderState;

/// How long a connection is waited for.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a request may queue for a connection of the pool, and for SQLite's write lock.
const QUEUE: Duration = Duration::from_secs(30);

/// An engine that has all the mechanisms.
pub(crate) trait Engine: PhasedSql + OutboxSql {
    /// Opens the database twice: for the payments, and for relay and reconciler, so that neither starves the other.
    fn open(url: &str) -> impl Future<Output = Result<Pools<Self>, sqlx::Error>> + Send;

    /// `OrderState::transition`, for code that is generic over the engine.
    fn move_order(
        tx: &mut Transaction<'_, Self>,
        order: &str,
        from: OrderState,
        to: OrderState,
    ) -> impl Future<Output = Result<Transitioned<OrderState>, occ::Error>> + Send;
}

/// The pools of one database.
#[derive(Debug)]
pub(crate) struct Pools<DB: Engine> {
    pub(crate) payments: Pool<DB>,
    pub(crate) back_office: Pool<DB>,
}

/// The engine of a URL, once it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Postgres,
    Sqlite,
}

impl Known {
    /// `None` for what the service does not run on.
    pub(crate) fn of(url: &str) -> Option<Self> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Some(Self::Postgres)
        } else {
            url.starts_with("sqlite:").then_some(Self::Sqlite)
        }
    }
}

impl Engine for Postgres {
    async fn open(url: &str) -> Result<Pools<Self>, sqlx::Error> {
        let options = PgConnectOptions::from_str(url)?.application_name("payments");
        // A pool would try until its time-out and then not say why.
        match tokio::time::timeout(CONNECT, options.connect()).await {
            Ok(connection) => connection?.close().await?,
            Err(_) => return Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
        }
        let pool = |connections: u32| {
            PgPoolOptions::new().max_connections(connections).acquire_timeout(QUEUE).connect_lazy_with(options.clone())
        };
        Ok(Pools { payments: pool(16), back_office: pool(4) })
    }

    async fn move_order(
        tx: &mut Transaction<'_, Self>,
        order: &str,
        from: OrderState,
        to: OrderState,
    ) -> Result<Transitioned<OrderState>, occ::Error> {
        OrderState::transition(tx, order.to_owned(), from, to).await
    }
}

impl Engine for Sqlite {
    async fn open(url: &str) -> Result<Pools<Self>, sqlx::Error> {
        let options = SqliteConnectOptions::from_str(url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(QUEUE);
        let pool = |connections: u32| SqlitePoolOptions::new().max_connections(connections).acquire_timeout(QUEUE);
        // Payments queue for a connection, which is fair, rather than for the write lock, which is not.
        let payments = pool(2).connect_with(options.clone()).await?;
        Ok(Pools { payments, back_office: pool(2).connect_with(options).await? })
    }

    async fn move_order(
        tx: &mut Transaction<'_, Self>,
        order: &str,
        from: OrderState,
        to: OrderState,
    ) -> Result<Transitioned<OrderState>, occ::Error> {
        OrderState::transition(tx, order.to_owned(), from, to).await
    }
}

/// Where a database is, without the password.
pub(crate) fn place(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, place)| place)
}

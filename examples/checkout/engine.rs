//! The engines that the shop runs on.

use std::str::FromStr;
use std::time::Duration;

use leastlock::idempotency::IdempotencySql;
use leastlock::outbox::OutboxSql;
use leastlock::partition_worker::WorkerSql;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Pool, Postgres, Sqlite};

/// How long a connection is waited for.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a request may queue for a connection of the pool; an order of hundreds of lines takes its time.
const QUEUE: Duration = Duration::from_mins(1);

/// An engine that has all the mechanisms.
pub(crate) trait Engine: IdempotencySql + OutboxSql + WorkerSql {
    /// Opens the database twice: for the clients, and for relay and worker, so that neither starves the other.
    fn open(url: &str, clients: u32) -> impl Future<Output = Result<Pools<Self>, sqlx::Error>> + Send;

    /// Handlers of the worker that run at a time.
    const HANDLERS: usize;
}

/// The pools of one database.
#[derive(Debug)]
pub(crate) struct Pools<DB: Engine> {
    pub(crate) clients: Pool<DB>,
    pub(crate) back_office: Pool<DB>,
}

impl Engine for Postgres {
    const HANDLERS: usize = 16;

    async fn open(url: &str, clients: u32) -> Result<Pools<Self>, sqlx::Error> {
        let options = PgConnectOptions::from_str(url)?.application_name("checkout");
        // A pool would try until its time-out and then not say why.
        match tokio::time::timeout(CONNECT, options.connect()).await {
            Ok(connection) => connection?.close().await?,
            Err(_) => return Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
        }
        let pool = |connections: u32| {
            PgPoolOptions::new().max_connections(connections).acquire_timeout(QUEUE).connect_lazy_with(options.clone())
        };
        // Each handler takes one; the worker folds and seals beside them, the relay reads and renews.
        Ok(Pools { clients: pool(clients), back_office: pool(16 + 6) })
    }
}

impl Engine for Sqlite {
    // One write lock: more handlers would only wait for it.
    const HANDLERS: usize = 2;

    async fn open(url: &str, _clients: u32) -> Result<Pools<Self>, sqlx::Error> {
        let options = SqliteConnectOptions::from_str(url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(Duration::from_secs(30));
        let pool = |connections: u32| SqlitePoolOptions::new().max_connections(connections).acquire_timeout(QUEUE);
        // Clients queue for a connection, which is fair, rather than for the write lock, which is not.
        let clients = pool(1).connect_with(options.clone()).await?;
        Ok(Pools { clients, back_office: pool(6).connect_with(options).await? })
    }
}

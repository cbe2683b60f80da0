//! The engines that the shop runs on.

use std::str::FromStr;
use std::time::Duration;

use leastlock::core::{self, Dialect};
use leastlock::lease::LeaseSql;
use leastlock::occ::StockSql;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Pool, Postgres, Sqlite};

/// How long a connection is waited for.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a buyer may queue for a connection of the pool.
pub(crate) const QUEUE: Duration = Duration::from_mins(2);
/// Buyers share connections, so that more of them than the server takes can be tried.
pub(crate) const MOST_CONNECTIONS: u32 = 32;

/// An engine that has every mechanism.
pub(crate) trait Engine: Dialect + StockSql + LeaseSql {
    /// What it is called in the output; the driver's own name is a family's.
    const CALLED: &'static str = Self::NAME;

    /// Reads the row and keeps it from being changed until the transaction ends.
    const READ_LOCKED: &'static str;

    fn open(url: &str, clients: u32) -> impl Future<Output = Result<Pool<Self>, sqlx::Error>> + Send;
}

/// The text that `DB` understands: MySQL has other placeholders (`?`), each used once and in order.
pub(crate) const fn text<DB: Dialect>(standard: &'static str, mysql: &'static str) -> &'static str {
    match DB::ENGINE {
        core::Engine::MySql => mysql,
        _ => standard,
    }
}

impl Engine for Postgres {
    const READ_LOCKED: &'static str = "SELECT units FROM stock_example WHERE code = $1 FOR NO KEY UPDATE";

    async fn open(url: &str, clients: u32) -> Result<Pool<Self>, sqlx::Error> {
        let options = PgConnectOptions::from_str(url)?.application_name("stock example");
        reach(&options).await?;
        let pool = PgPoolOptions::new().max_connections(clients.min(MOST_CONNECTIONS)).test_before_acquire(false);
        pool.acquire_timeout(QUEUE).connect_with(options).await
    }
}

impl Engine for Sqlite {
    // BEGIN IMMEDIATE has taken the one write lock already.
    const READ_LOCKED: &'static str = "SELECT units FROM stock_example WHERE code = $1";

    async fn open(url: &str, clients: u32) -> Result<Pool<Self>, sqlx::Error> {
        let options = SqliteConnectOptions::from_str(url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(QUEUE);
        SqlitePoolOptions::new().max_connections(clients.min(8)).acquire_timeout(QUEUE).connect_with(options).await
    }
}

/// Connects once: a pool would try until its time-out and then not say why.
pub(crate) async fn reach<O: ConnectOptions<Connection: Sized>>(options: &O) -> Result<(), sqlx::Error> {
    match tokio::time::timeout(CONNECT, options.connect()).await {
        Ok(connection) => connection?.close().await,
        Err(_) => Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
    }
}

//! The engines that the shop runs on.

use std::str::FromStr;
use std::time::Duration;

use leastlock::lease::LeaseSql;
use leastlock::occ::StockSql;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Pool, Postgres, Sqlite};

const CONNECT: Duration = Duration::from_secs(10);
const QUEUE: Duration = Duration::from_mins(2);

/// An engine that has all the mechanisms, and a statement that reads a row to change it.
pub(crate) trait Engine: StockSql + LeaseSql {
    /// Reads the row and keeps it from being changed until the transaction ends.
    const READ_LOCKED: &'static str;

    fn open(url: &str, clients: u32) -> impl Future<Output = Result<Pool<Self>, sqlx::Error>> + Send;
}

impl Engine for Postgres {
    const READ_LOCKED: &'static str = "SELECT units FROM stock_example WHERE code = $1 FOR NO KEY UPDATE";

    async fn open(url: &str, clients: u32) -> Result<Pool<Self>, sqlx::Error> {
        let options = PgConnectOptions::from_str(url)?.application_name("stock example");
        // One for each buyer, and some for renewals of the lease.
        let pool =
            PgPoolOptions::new().max_connections(clients + 4).test_before_acquire(false).acquire_timeout(CONNECT);
        pool.connect_with(options.clone()).await?.close().await;
        let pool = PgPoolOptions::new().max_connections(clients + 4).test_before_acquire(false).acquire_timeout(QUEUE);
        pool.connect_with(options).await
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

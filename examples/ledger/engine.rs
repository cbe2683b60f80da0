//! The engines that the ledger is kept on.

use std::str::FromStr;
use std::time::Duration;

use leastlock::partition_worker::WorkerSql;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Pool, Postgres, Sqlite};

/// How long a connection is waited for.
const CONNECT: Duration = Duration::from_secs(10);

/// An engine, and what is written otherwise on it.
pub(crate) trait Engine: WorkerSql {
    /// Handlers of a worker that run at a time.
    const HANDLERS: u8;

    /// The tables. A posting is unique in nothing but its place: a second one is to be found, not refused.
    const TABLES: [&'static str; 2];

    /// Opens the database.
    fn open(url: &str) -> impl Future<Output = Result<Pool<Self>, sqlx::Error>> + Send;
}

impl Engine for Postgres {
    const HANDLERS: u8 = 8;
    const TABLES: [&'static str; 2] = [
        "CREATE TABLE ledger_account (account text PRIMARY KEY, balance bigint NOT NULL)",
        "CREATE TABLE ledger_posting (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account text NOT NULL, \
         sequence bigint NOT NULL, applied bigint NOT NULL, worker text NOT NULL)",
    ];

    async fn open(url: &str) -> Result<Pool<Self>, sqlx::Error> {
        let options = PgConnectOptions::from_str(url)?.application_name("ledger");
        // A pool would try until its time-out and then not say why.
        match tokio::time::timeout(CONNECT, options.connect()).await {
            Ok(connection) => connection?.close().await?,
            Err(_) => return Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
        }
        // Each handler takes one; the worker folds and seals beside them.
        let connections = u32::from(Self::HANDLERS) + 2;
        Ok(PgPoolOptions::new().max_connections(connections).connect_lazy_with(options))
    }
}

impl Engine for Sqlite {
    // One write lock for all processes: more handlers would only wait for it.
    const HANDLERS: u8 = 1;
    const TABLES: [&'static str; 2] = [
        "CREATE TABLE ledger_account (account TEXT PRIMARY KEY, balance INTEGER NOT NULL)",
        "CREATE TABLE ledger_posting (id INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL, \
         sequence INTEGER NOT NULL, applied INTEGER NOT NULL, worker TEXT NOT NULL)",
    ];

    async fn open(url: &str) -> Result<Pool<Self>, sqlx::Error> {
        let options = SqliteConnectOptions::from_str(url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(Duration::from_secs(30));
        SqlitePoolOptions::new().max_connections(4).connect_with(options).await
    }
}

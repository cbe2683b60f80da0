//! The engines that lease and rows can be kept in.

use std::str::FromStr;
use std::time::Duration;

use leastlock::lease::LeaseSql;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{ConnectOptions, Connection, Pool, Postgres, Sqlite};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long a connection is waited for.
const CONNECT: Duration = Duration::from_secs(10);
const CONNECTIONS: u32 = 4;

pub(crate) trait Engine: LeaseSql {
    fn open(url: &str) -> impl Future<Output = Result<Pool<Self>, sqlx::Error>> + Send;
}

impl Engine for Postgres {
    async fn open(url: &str) -> Result<Pool<Self>, sqlx::Error> {
        let options = PgConnectOptions::from_str(url)?.application_name("late_writer example");
        reach(&options).await?;
        PgPoolOptions::new().max_connections(CONNECTIONS).connect_with(options).await
    }
}

impl Engine for Sqlite {
    async fn open(url: &str) -> Result<Pool<Self>, sqlx::Error> {
        let options = SqliteConnectOptions::from_str(url)?.create_if_missing(true);
        let options = options.journal_mode(SqliteJournalMode::Wal).busy_timeout(CONNECT);
        SqlitePoolOptions::new().max_connections(CONNECTIONS).connect_with(options).await
    }
}

#[cfg(feature = "mysql")]
impl Engine for sqlx::MySql {
    async fn open(url: &str) -> Result<Pool<Self>, sqlx::Error> {
        let options = sqlx::mysql::MySqlConnectOptions::from_str(url)?;
        reach(&options).await?;
        sqlx::mysql::MySqlPoolOptions::new().max_connections(CONNECTIONS).connect_with(options).await
    }
}

/// Connects once: a pool would try until its time-out and then not say why.
async fn reach<O: ConnectOptions<Connection: Sized>>(options: &O) -> Result<(), sqlx::Error> {
    match tokio::time::timeout(CONNECT, options.connect()).await {
        Ok(connection) => connection?.close().await,
        Err(_) => Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
    }
}

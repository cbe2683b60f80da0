//! The engines that it runs on.

use std::str::FromStr;
use std::time::Duration;

use leastlock::core::Statement;
use leastlock::lease::LeaseSql;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Pool, Postgres, Sqlite};

/// How long a connection is waited for.
const CONNECT: Duration = Duration::from_secs(10);
/// A worker uses one for the work, one for the renewal of its lease, and one for a look.
const CONNECTIONS: u32 = 4;

/// An engine, and how it is reached.
pub(crate) trait Engine: LeaseSql {
    /// Opens the database.
    fn open(url: &str) -> impl Future<Output = Result<Pool<Self>, sqlx::Error>> + Send;
}

impl Engine for Postgres {
    async fn open(url: &str) -> Result<Pool<Self>, sqlx::Error> {
        let options = PgConnectOptions::from_str(url)?;
        // A pool would try until its time-out and then not say why.
        match tokio::time::timeout(CONNECT, options.connect()).await {
            Ok(connection) => connection?.close().await?,
            Err(_) => return Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
        }
        Ok(PgPoolOptions::new().max_connections(CONNECTIONS).connect_lazy_with(options))
    }
}

impl Engine for Sqlite {
    async fn open(url: &str) -> Result<Pool<Self>, sqlx::Error> {
        let options = SqliteConnectOptions::from_str(url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(30));
        SqlitePoolOptions::new().max_connections(CONNECTIONS).connect_with(options).await
    }
}

/// Runs statements that take no parameters.
pub(crate) async fn execute<DB: Engine>(pool: &Pool<DB>, statements: &[&'static str]) -> Result<(), sqlx::Error> {
    let mut connection = pool.acquire().await?;
    for statement in statements {
        Statement::new(*statement).execute::<DB>(&mut connection).await?;
    }
    Ok(())
}

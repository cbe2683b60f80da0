//! Connections of the processes: opened when they are wanted, so that a process begins whether its server is there or not.

use std::str::FromStr;
use std::time::Duration;

use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Pool};

use crate::ground::OfGround;

/// How long a process waits for a connection before it takes the server for unreachable.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(3);

/// An engine that processes use.
pub(crate) trait Pooled: OfGround {
    /// A pool of at most so many connections, of which none is open yet.
    fn lazy(url: &str, connections: u32) -> anyhow::Result<Pool<Self>>;
}

impl Pooled for Postgres {
    fn lazy(url: &str, connections: u32) -> anyhow::Result<Pool<Self>> {
        let options = PgConnectOptions::from_str(url)?.disable_statement_logging();
        let pool = PgPoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE_LIMIT);
        Ok(pool.connect_lazy_with(options))
    }
}

impl Pooled for MySql {
    fn lazy(url: &str, connections: u32) -> anyhow::Result<Pool<Self>> {
        let options = MySqlConnectOptions::from_str(url)?.disable_statement_logging();
        let pool = MySqlPoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE_LIMIT);
        Ok(pool.connect_lazy_with(options))
    }
}

impl Pooled for Sqlite {
    fn lazy(url: &str, connections: u32) -> anyhow::Result<Pool<Self>> {
        let options = SqliteConnectOptions::from_str(url)?
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(Duration::from_secs(10))
            .disable_statement_logging();
        let pool = SqlitePoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE_LIMIT);
        Ok(pool.connect_lazy_with(options))
    }
}

//! The databases that the benchmarks run on.

use std::str::FromStr;
use std::time::Duration;

use leastlock_idempotency::IdempotencySql;
use leastlock_testkit::TestEngine;
use leastlock_testkit::database::{Postgres, Sqlite};
use sqlx::Pool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::combine::CombineSql;
use crate::idempotency::IdempotencyByHand;
use crate::stock::StockSql;

/// How long a client may wait for a connection before the run fails.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(30);

/// An engine with the statements of every scenario.
///
/// # Contract
/// All contenders of a contest use the one pool that [`pool`](Self::pool) makes, so durability, time-outs and the number
/// of connections are the same for each. A commit lasts: no setting trades it for speed.
pub(crate) trait BenchEngine: TestEngine + IdempotencySql + StockSql + CombineSql + IdempotencyByHand {
    /// A query for the server's version and today's date.
    const ABOUT: &'static str;

    /// A pool for so many clients.
    fn pool(url: &str, clients: u32) -> impl Future<Output = sqlx::Result<Pool<Self>>> + Send;
}

impl BenchEngine for Postgres {
    const ABOUT: &'static str = "SELECT split_part(current_setting('server_version'), ' ', 1), current_date::text";

    /// One connection a client. The library limits waits in its own statements; by hand one sets them on the connection,
    /// which costs no statement. No ping at acquire: it would be the same for all and make every ratio look better.
    async fn pool(url: &str, clients: u32) -> sqlx::Result<Pool<Self>> {
        let limits = [("lock_timeout", "10s"), ("idle_in_transaction_session_timeout", "10s")];
        let options = PgConnectOptions::from_str(url)?.options(limits);
        let pool = PgPoolOptions::new().max_connections(clients).acquire_timeout(ACQUIRE_LIMIT);
        pool.test_before_acquire(false).idle_timeout(None).max_lifetime(None).connect_with(options).await
    }
}

impl BenchEngine for Sqlite {
    const ABOUT: &'static str = "SELECT sqlite_version(), current_date";

    /// One connection for all clients: there is one write lock, and a queue for a connection is fair and wakes at once,
    /// where connections that wait for the lock poll for it.
    async fn pool(url: &str, _clients: u32) -> sqlx::Result<Pool<Self>> {
        let options = SqliteConnectOptions::from_str(url)?
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(ACQUIRE_LIMIT);
        let pool = SqlitePoolOptions::new().max_connections(1).acquire_timeout(ACQUIRE_LIMIT);
        pool.test_before_acquire(false).idle_timeout(None).max_lifetime(None).connect_with(options).await
    }
}

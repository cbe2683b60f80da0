//! What the benchmarks run on.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, ensure};
use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Executor, Pool};
use tokio::task::JoinSet;

use crate::cpu::{Cpu, server_of_backend, server_of_pid_file};

/// How long a client may wait for a connection before the run fails.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(30);

/// Connections that are left for preparing and verifying rounds, and for whoever looks at the server meanwhile.
const SPARE_CONNECTIONS: i64 = 8;

const POSTGRES_ROOM: &str = include_str!("../sql/postgres/room.sql");
const MYSQL_ROOM: &str = include_str!("../sql/mysql/room.sql");

/// An engine to measure on.
///
/// # Contract
/// All contenders of a contest use the one pool that [`pool`](Self::pool) makes, so durability, time-outs, the isolation level
/// and the number of connections are the same for each. A commit lasts: no setting trades it for speed.
pub(crate) trait BenchEngine: TestEngine {
    /// A query for the server's name and version, and today's date.
    const ABOUT: &'static str;

    /// A pool of at most so many connections.
    fn pool(url: &str, connections: u32) -> impl Future<Output = sqlx::Result<Pool<Self>>> + Send;

    /// The most connections that a pool may have.
    fn limit(database: &TestDatabase<Self>) -> impl Future<Output = anyhow::Result<u32>> + Send;

    /// Where the engine's processor time is read.
    fn cpu(database: &TestDatabase<Self>) -> impl Future<Output = anyhow::Result<Cpu>> + Send;
}

/// A pool for so many clients, of which every connection is open: one a client, as far as the limit goes.
pub(crate) async fn open_pool<DB: BenchEngine>(url: &str, clients: u32, limit: u32) -> anyhow::Result<Pool<DB>> {
    let connections = clients.min(limit);
    let pool = DB::pool(url, connections).await?;
    let mut open = JoinSet::new();
    for _ in 0..connections {
        let pool = pool.clone();
        open.spawn(async move { pool.acquire().await });
    }
    // None goes back before all are there.
    let open = open.join_all().await.into_iter().collect::<Result<Vec<_>, _>>();
    drop(open.with_context(|| format!("{connections} connections cannot be opened"))?);
    Ok(pool)
}

impl BenchEngine for Postgres {
    const ABOUT: &'static str =
        "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1), current_date::text";

    /// The library limits waits in its own statements; by hand one sets them on the connection, which costs no statement. No
    /// ping at acquire: it would be the same for all and make every ratio look better.
    async fn pool(url: &str, connections: u32) -> sqlx::Result<Pool<Self>> {
        let limits = [("lock_timeout", "10s"), ("idle_in_transaction_session_timeout", "10s")];
        let options = PgConnectOptions::from_str(url)?.options(limits);
        let pool = PgPoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE_LIMIT);
        pool.test_before_acquire(false).idle_timeout(None).max_lifetime(None).connect_with(options).await
    }

    async fn limit(database: &TestDatabase<Self>) -> anyhow::Result<u32> {
        limit_of(database.int(POSTGRES_ROOM).await)
    }

    /// By the session's process number, which means something on the server's machine only.
    async fn cpu(database: &TestDatabase<Self>) -> anyhow::Result<Cpu> {
        let options = PgConnectOptions::from_str(&database.url)?;
        if options.get_socket().is_none() && !is_loopback(options.get_host()) {
            return Ok(Cpu::Unknown);
        }
        let mut session = database.pool.acquire().await?;
        let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *session).await?;
        let name = options.get_database().context("a test database has a name")?;
        let server = u32::try_from(backend).ok().and_then(|backend| server_of_backend(backend, name));
        Ok(server.map_or(Cpu::Unknown, Cpu::Server))
    }
}

impl BenchEngine for Sqlite {
    const ABOUT: &'static str = "SELECT 'SQLite ' || sqlite_version(), current_date";

    async fn pool(url: &str, connections: u32) -> sqlx::Result<Pool<Self>> {
        let options = SqliteConnectOptions::from_str(url)?
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(ACQUIRE_LIMIT);
        let pool = SqlitePoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE_LIMIT);
        pool.test_before_acquire(false).idle_timeout(None).max_lifetime(None).connect_with(options).await
    }

    /// One connection for all clients: there is one write lock, and a queue for a connection is fair and wakes at once,
    /// where connections that wait for the lock poll for it.
    async fn limit(_database: &TestDatabase<Self>) -> anyhow::Result<u32> {
        Ok(1)
    }

    async fn cpu(_database: &TestDatabase<Self>) -> anyhow::Result<Cpu> {
        Ok(if Cpu::Own.seconds().is_some() { Cpu::Own } else { Cpu::Unknown })
    }
}

impl BenchEngine for MySql {
    const ABOUT: &'static str = "SELECT CONCAT(IF(version() LIKE '%MariaDB%', 'MariaDB ', 'MySQL '), \
        SUBSTRING_INDEX(version(), '-', 1)), CAST(current_date AS char)";

    /// The library begins its own transactions at READ COMMITTED; by hand one sets it on the connection, which costs no
    /// statement, as the limit of waits does.
    async fn pool(url: &str, connections: u32) -> sqlx::Result<Pool<Self>> {
        const SESSION: &str =
            "SET SESSION innodb_lock_wait_timeout = 10; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
        let options = MySqlConnectOptions::from_str(url)?;
        let pool = MySqlPoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE_LIMIT);
        let pool =
            pool.after_connect(|connection, _| Box::pin(async { connection.execute(SESSION).await.map(|_| ()) }));
        pool.test_before_acquire(false).idle_timeout(None).max_lifetime(None).connect_with(options).await
    }

    async fn limit(database: &TestDatabase<Self>) -> anyhow::Result<u32> {
        limit_of(database.int(MYSQL_ROOM).await)
    }

    /// By the file with its process number, which is there on the server's machine only.
    async fn cpu(database: &TestDatabase<Self>) -> anyhow::Result<Cpu> {
        let options = MySqlConnectOptions::from_str(&database.url)?;
        if options.get_socket().is_none() && !is_loopback(options.get_host()) {
            return Ok(Cpu::Unknown);
        }
        let mut session = database.pool.acquire().await?;
        let path: String = sqlx::query_scalar("SELECT @@pid_file").fetch_one(&mut *session).await?;
        Ok(server_of_pid_file(&path, &["mariadbd", "mysqld"]).map_or(Cpu::Unknown, Cpu::Server))
    }
}

fn limit_of(room: i64) -> anyhow::Result<u32> {
    let connections = room - SPARE_CONNECTIONS;
    ensure!(connections > 0, "the server has room for {room} more connections; {SPARE_CONNECTIONS} are kept free");
    Ok(u32::try_from(connections)?)
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.starts_with('/') || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_this_machine() {
        for host in ["localhost", "127.0.0.1", "127.8.0.1", "::1", "[::1]", "/run/postgresql"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["db.example.org", "10.0.0.7", "127.example.org", ""] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_full_server_is_said_to_be_full() {
        assert_eq!(limit_of(20).unwrap(), 12);
        assert!(limit_of(SPARE_CONNECTIONS).is_err());
    }

    async fn processor_time_of_a_server_grows_with_its_work<DB: BenchEngine>(work: &'static str) {
        let database = TestDatabase::<DB>::create().await;
        let cpu = DB::cpu(&database).await.unwrap();
        assert!(matches!(cpu, Cpu::Server(_)), "the server for tests runs on this machine, and was not found");
        let before = cpu.seconds().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_mins(1);
        while cpu.seconds().unwrap() < before + 0.05 {
            assert!(std::time::Instant::now() < deadline, "no processor time was counted");
            database.int(work).await;
        }
    }

    #[tokio::test]
    async fn processor_time_of_a_server_grows_with_its_work_on_postgres() {
        let work = "SELECT count(*) FROM generate_series(1, 300000)";
        processor_time_of_a_server_grows_with_its_work::<Postgres>(work).await;
    }

    #[tokio::test]
    async fn processor_time_of_a_server_grows_with_its_work_on_mysql() {
        let work = "SELECT count(*) FROM seq_1_to_300000";
        processor_time_of_a_server_grows_with_its_work::<MySql>(work).await;
    }

    #[tokio::test]
    async fn a_pool_is_open_as_far_as_its_limit_goes() {
        let database = TestDatabase::<Postgres>::create().await;
        for (clients, limit, open) in [(5, 100, 5), (5, 3, 3)] {
            let pool = open_pool::<Postgres>(&database.url, clients, limit).await.unwrap();
            assert_eq!((pool.size(), pool.options().get_max_connections()), (open, open));
            pool.close().await;
        }
    }
}

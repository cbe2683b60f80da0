//! A fresh database per test on each engine.

mod lent;
mod prepared;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Pool};

use leastlock_core::{Dialect, Engine, Migrations};
pub use lent::Lent;
pub use prepared::Prepared;
pub use sqlx::{MySql, Postgres, Sqlite};

/// Where the PostgreSQL server for tests listens; `scripts/services env` prints it.
pub const POSTGRES_URL: &str = "LEASTLOCK_POSTGRES_URL";

/// Where the MariaDB server for tests listens; `scripts/services env` prints it.
pub const MYSQL_URL: &str = "LEASTLOCK_MYSQL_URL";

/// Connections a test's pool may open. A child process opens its own.
const MAX_CONNECTIONS: u32 = 24;

/// An engine on which a test can have a database of its own.
///
/// # Contract
/// [`provide`](Self::provide) answers an empty database that no other test sees; [`discard`](Self::discard) ends it, open
/// connections included, or what it holds of the server's. A server that is not there fails the test: nothing is skipped.
pub trait TestEngine: Dialect {
    /// What keeps the database alive, and is needed to end it.
    type Handle: Send + Sync + std::fmt::Debug;

    /// Makes an empty database; answers its URL and what keeps it.
    fn provide() -> impl Future<Output = (String, Self::Handle)> + Send;

    /// A pool for the database at `url`, as the tests and their child processes use it.
    fn connect(url: &str) -> impl Future<Output = Pool<Self>> + Send;

    /// Lends a database of a suite, which no other test uses before this one's runtime ends; see [`TestDatabase::prepared`].
    fn lend(suite: &str) -> impl Future<Output = (String, Self::Handle)> + Send;

    /// Ends the database, or what it has on the server outside of it if another test will have it.
    fn discard(handle: &mut Self::Handle);
}

/// A test's own statement on `DB`: MySQL has other placeholders (`?`, each used once) and other names of types in casts.
#[must_use]
pub const fn sql<DB: Dialect>(standard: &'static str, mysql: &'static str) -> &'static str {
    match DB::ENGINE {
        Engine::MySql => mysql,
        _ => standard,
    }
}

/// A database of one test; it ends with the value.
#[derive(Debug)]
pub struct TestDatabase<DB: TestEngine> {
    /// A pool of up to 24 connections.
    pub pool: Pool<DB>,
    /// Where a child process finds the same database.
    pub url: String,
    handle: DB::Handle,
}

impl<DB: TestEngine> TestDatabase<DB> {
    /// A fresh database.
    pub async fn create() -> Self {
        let (url, handle) = DB::provide().await;
        Self { pool: DB::connect(&url).await, url, handle }
    }

    /// The same database with a crate's tables in it.
    pub async fn with(self, migrations: &Migrations) -> Self {
        migrations.run(&self.pool).await.expect("the migrations apply");
        self
    }

    /// Runs statements of the test's own, such as its tables.
    pub async fn execute(&self, sql: &'static str) {
        let mut connection = self.pool.acquire().await.expect("a connection");
        DB::run_query(&mut connection, sqlx::query(sql)).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The one integer that a query answers with.
    pub async fn int(&self, sql: &'static str) -> i64 {
        let mut connection = self.pool.acquire().await.expect("a connection");
        let row = DB::fetch_query(&mut connection, sqlx::query(sql)).await;
        let row = row.unwrap_or_else(|error| panic!("{sql}: {error}")).expect("one row");
        row.int(0).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}

impl<DB: TestEngine> Drop for TestDatabase<DB> {
    fn drop(&mut self) {
        DB::discard(&mut self.handle);
    }
}

impl TestEngine for Sqlite {
    type Handle = tempfile::TempDir;

    async fn provide() -> (String, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file: PathBuf = folder.path().join("test.sqlite");
        (format!("sqlite://{}", file.display()), folder)
    }

    async fn connect(url: &str) -> Pool<Self> {
        let options = SqliteConnectOptions::from_str(url)
            .expect("an SQLite URL")
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(Duration::from_secs(10));
        let pool = SqlitePoolOptions::new().max_connections(MAX_CONNECTIONS);
        pool.connect_with(options).await.expect("SQLite opens its file")
    }

    async fn lend(_suite: &str) -> (String, tempfile::TempDir) {
        Self::provide().await
    }

    fn discard(_folder: &mut tempfile::TempDir) {}
}

impl TestEngine for Postgres {
    type Handle = Lent;

    async fn provide() -> (String, Lent) {
        lent::as_new("test").await
    }

    async fn connect(url: &str) -> Pool<Self> {
        let options = PgConnectOptions::from_str(url).expect("a PostgreSQL URL");
        let pool = PgPoolOptions::new().max_connections(MAX_CONNECTIONS).test_before_acquire(false);
        pool.connect_with(options).await.expect("the PostgreSQL server answers")
    }

    async fn lend(suite: &str) -> (String, Lent) {
        prepared::lend_by_postgres(suite).await
    }

    fn discard(lent: &mut Lent) {
        let Some(name) = lent.to_be_left().map(str::to_owned) else { return };
        end_on_a_thread(&name.clone(), || async move {
            let server = std::env::var(POSTGRES_URL).expect("it was set when the database was lent");
            let mut connection = PgConnectOptions::from_str(&server)?.connect().await?;
            // Not when the next test has it: an open transaction holds up every other one that waits for all of the server's.
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
            sqlx::query(end).bind(&name).execute(&mut connection).await?;
            drop_slots(&mut connection, &name).await
        });
    }
}

/// A replication slot keeps its database, which even `FORCE` does not drop, and the server's log; whoever reads it keeps the slot.
async fn drop_slots(connection: &mut sqlx::PgConnection, database: &str) -> Result<(), sqlx::Error> {
    let slots = "SELECT slot_name::text FROM pg_replication_slots WHERE database = $1";
    let slots: Vec<String> = sqlx::query_scalar(slots).bind(database).fetch_all(&mut *connection).await?;
    for slot in slots {
        let end =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()";
        sqlx::query(end).bind(database).execute(&mut *connection).await?;
        // The sessions take a moment to end, and a test's pool may open others meanwhile.
        let drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1";
        let mut attempts = 0;
        while let Err(error) = sqlx::query(drop).bind(&slot).execute(&mut *connection).await {
            attempts += 1;
            if attempts == 100 {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            sqlx::query(end).bind(database).execute(&mut *connection).await?;
        }
    }
    Ok(())
}

impl TestEngine for MySql {
    type Handle = String;

    async fn provide() -> (String, String) {
        let name = format!("leastlock_test_{}", uuid::Uuid::new_v4().simple());
        let options = mysql_server();
        let mut connection = options.connect().await.expect("the MariaDB server answers");
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create).execute(&mut connection).await.expect("a new database");
        connection.close().await.expect("the connection closes");
        let url = options.database(&name).to_url_lossy().to_string();
        (url, name)
    }

    async fn connect(url: &str) -> Pool<Self> {
        let options = MySqlConnectOptions::from_str(url).expect("a MySQL URL");
        let pool = MySqlPoolOptions::new().max_connections(MAX_CONNECTIONS).test_before_acquire(false);
        pool.connect_with(options).await.expect("the MariaDB server answers")
    }

    async fn lend(suite: &str) -> (String, String) {
        (prepared::lend_by_mysql(suite).await, String::new())
    }

    fn discard(name: &mut String) {
        if name.is_empty() {
            return;
        }
        let dropped = name.clone();
        end_on_a_thread(name, move || async move {
            let mut connection = mysql_server().connect().await?;
            // `DROP DATABASE` waits for every transaction that has read a table in it, for a day by default.
            let open = "SELECT id FROM information_schema.processlist WHERE db = ?";
            let open: Vec<i64> = sqlx::query_scalar(open).bind(&dropped).fetch_all(&mut connection).await?;
            for id in open {
                // One that has ended by itself meanwhile is an error.
                let _ = sqlx::raw_sql(AssertSqlSafe(format!("KILL CONNECTION {id}"))).execute(&mut connection).await;
            }
            let drop = AssertSqlSafe(format!("DROP DATABASE IF EXISTS {dropped}"));
            sqlx::raw_sql(drop).execute(&mut connection).await.map(|_| ())
        });
    }
}

fn mysql_server() -> MySqlConnectOptions {
    let server =
        std::env::var(MYSQL_URL).unwrap_or_else(|_| panic!("{MYSQL_URL} is not set: eval \"$(scripts/services env)\""));
    MySqlConnectOptions::from_str(&server).expect("a MySQL URL")
}

/// How long a test waits for its database to end.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Ends a database on a thread of its own: `Drop` runs inside the test's runtime, which cannot be blocked on.
fn end_on_a_thread<F: Future<Output = Result<(), sqlx::Error>>>(name: &str, end: impl FnOnce() -> F + Send + 'static) {
    let (ended, end_known) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        // Nobody may be waiting for it any more.
        let _ = ended.send(runtime.block_on(end()));
    });
    if let Ok(Err(error)) = end_known.recv_timeout(END_LIMIT) {
        eprintln!("the test's database {name} was left behind: {error}");
    }
}

//! The engines that the shop runs on.

use std::str::FromStr;
use std::time::Duration;

use leastlock::idempotency::IdempotencySql;
use leastlock::occ::StockSql;
use leastlock::outbox::OutboxSql;
use leastlock::partition_worker::WorkerSql;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Pool, Postgres, Sqlite};
use tempfile::TempDir;

/// How long a connection is waited for.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a request may queue for a connection of the pool; an order of hundreds of lines takes its time.
const QUEUE: Duration = Duration::from_mins(1);
/// Connections that are opened before the clock starts; more are, when they are needed.
const WARM: u32 = 32;

/// An engine that has all the mechanisms.
pub(crate) trait Engine: IdempotencySql + OutboxSql + WorkerSql + StockSql {
    /// Handlers of the worker that run at a time.
    const HANDLERS: usize;

    /// JSON array of [stock code, moves, units out, units back] → each row with its number of moves after them.
    const COUNT_MOVES: &'static str;

    /// JSON array of [invoice, units out, units back] → the orders that were not there before are inserted.
    const INSERT_ORDERS: &'static str;

    /// What keeps a place beside the database, and is needed to end it.
    type Aside: Send;

    /// Opens the database twice: for the clients, and for relay and worker, so that neither starves the other.
    fn open(url: &str, clients: u32) -> impl Future<Output = Result<Pools<Self>, sqlx::Error>> + Send;

    /// The same for an empty place beside it, on the same server or the same disk.
    fn open_aside(
        url: &str,
        clients: u32,
    ) -> impl Future<Output = Result<(Pools<Self>, Self::Aside), sqlx::Error>> + Send;

    /// Ends the place beside.
    fn end(aside: Self::Aside) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// The pools of one database.
#[derive(Debug)]
pub(crate) struct Pools<DB: Engine> {
    pub(crate) clients: Pool<DB>,
    pub(crate) back_office: Pool<DB>,
}

impl<DB: Engine> Pools<DB> {
    /// Opens the clients' connections, so that their rate does not depend on how many there are to be opened.
    pub(crate) async fn warm(&self) -> Result<(), sqlx::Error> {
        let mut open = Vec::new();
        for _ in 0..self.clients.options().get_max_connections().min(WARM) {
            open.push(self.clients.acquire().await?);
        }
        Ok(())
    }

    pub(crate) async fn close(self) {
        self.clients.close().await;
        self.back_office.close().await;
    }
}

/// The schema of the place beside. A run that was killed leaves it behind, and the next one empties it.
const DROP_ASIDE: &str = "DROP SCHEMA IF EXISTS checkout_plain CASCADE";
const MAKE_ASIDE: &str = "CREATE SCHEMA checkout_plain";

impl Engine for Postgres {
    const HANDLERS: usize = 16;
    const COUNT_MOVES: &'static str = include_str!("sql/postgres/count_moves.sql");
    const INSERT_ORDERS: &'static str = include_str!("sql/postgres/insert_orders.sql");

    type Aside = PgConnectOptions;

    async fn open(url: &str, clients: u32) -> Result<Pools<Self>, sqlx::Error> {
        let options = PgConnectOptions::from_str(url)?.application_name("checkout");
        // A pool would try until its time-out and then not say why.
        match tokio::time::timeout(CONNECT, options.connect()).await {
            Ok(connection) => connection?.close().await?,
            Err(_) => return Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
        }
        Ok(postgres(&options, clients))
    }

    async fn open_aside(url: &str, clients: u32) -> Result<(Pools<Self>, PgConnectOptions), sqlx::Error> {
        let options = PgConnectOptions::from_str(url)?.application_name("checkout");
        let mut connection = options.connect().await?;
        for sql in [DROP_ASIDE, MAKE_ASIDE] {
            sqlx::raw_sql(sql).execute(&mut connection).await?;
        }
        connection.close().await?;
        let aside = options.clone().options([("search_path", "checkout_plain")]);
        Ok((postgres(&aside, clients), options))
    }

    async fn end(aside: PgConnectOptions) -> Result<(), sqlx::Error> {
        let mut connection = aside.connect().await?;
        sqlx::raw_sql(DROP_ASIDE).execute(&mut connection).await?;
        connection.close().await
    }
}

fn postgres(options: &PgConnectOptions, clients: u32) -> Pools<Postgres> {
    let pool = |connections: u32| {
        PgPoolOptions::new().max_connections(connections).acquire_timeout(QUEUE).connect_lazy_with(options.clone())
    };
    // Each handler takes one; the worker folds and seals beside them, the relay reads and renews.
    Pools { clients: pool(clients), back_office: pool(16 + 6) }
}

impl Engine for Sqlite {
    // One write lock: more handlers would only wait for it.
    const HANDLERS: usize = 2;
    const COUNT_MOVES: &'static str = include_str!("sql/sqlite/count_moves.sql");
    const INSERT_ORDERS: &'static str = include_str!("sql/sqlite/insert_orders.sql");

    /// The folder with its file.
    type Aside = TempDir;

    async fn open(url: &str, _clients: u32) -> Result<Pools<Self>, sqlx::Error> {
        sqlite(SqliteConnectOptions::from_str(url)?).await
    }

    async fn open_aside(url: &str, _clients: u32) -> Result<(Pools<Self>, TempDir), sqlx::Error> {
        let options = SqliteConnectOptions::from_str(url)?;
        // On the same disk: another may be faster.
        let disk = options.get_filename().parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = TempDir::new_in(disk.unwrap_or_else(|| ".".as_ref()))?;
        let pools = sqlite(options.filename(folder.path().join("plain.sqlite"))).await?;
        Ok((pools, folder))
    }

    async fn end(aside: TempDir) -> Result<(), sqlx::Error> {
        Ok(aside.close()?)
    }
}

async fn sqlite(options: SqliteConnectOptions) -> Result<Pools<Sqlite>, sqlx::Error> {
    let options = options
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(Duration::from_secs(30));
    let pool = |connections: u32| SqlitePoolOptions::new().max_connections(connections).acquire_timeout(QUEUE);
    // Clients queue for a connection, which is fair, rather than for the write lock, which is not.
    let clients = pool(1).connect_with(options.clone()).await?;
    Ok(Pools { clients, back_office: pool(6).connect_with(options).await? })
}

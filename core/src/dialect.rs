//! One generic body, SQL per engine.

use std::future::Future;

use sqlx::error::DatabaseError;
use sqlx::query::Query;
use sqlx::{Database, Pool};

use crate::error_class::ErrorClass;
use crate::migrations::{Migration, MigrationError};
use crate::statement::{Row, Statement};

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod driver;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

/// The SQL engines that have a dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Engine {
    /// PostgreSQL 13 or later.
    Postgres,
    /// SQLite 3.35 or later.
    Sqlite,
    /// MariaDB 10.6 or later. MySQL 8 is expected to work and is not tested.
    MySql,
}

/// An SQL engine that leastlock supports. Sealed: implemented for `sqlx::Postgres`, `sqlx::Sqlite` and `sqlx::MySql`, each
/// behind the feature of its name.
///
/// Generic application code needs this bound only: `async fn place<DB: Dialect>(tx: &mut Transaction<'_, DB>)`.
///
/// # Contract
/// - [`BEGIN_WRITE`](Self::BEGIN_WRITE) opens a transaction in which a later write cannot fail because another writer came
///   between (SQLite), at READ COMMITTED whatever the server's default is (PostgreSQL, MySQL), and in which a process that stops
///   is ended by the server after 10 s of idling, or what the session says if that is stricter (PostgreSQL only).
/// - Every method runs exactly the statement given, once, on the connection given. One thing may follow it: where the
///   server has ended the transaction of a statement that failed, and would run the next ones without any (a deadlock on
///   MySQL), the connection is [poisoned](Self::poison).
pub trait Dialect: Database + sealed::Sealed {
    /// Which engine this is.
    const ENGINE: Engine;

    /// The statement that begins a transaction of the library's own that will write.
    const BEGIN_WRITE: &'static str;

    /// The meaning of an error of the engine's, by its code.
    fn class_of(error: &dyn DatabaseError) -> ErrorClass;

    /// The statement as a query of sqlx's, with its parameters bound.
    fn query(statement: Statement<'_>) -> Result<Query<'static, Self, Self::Arguments>, sqlx::Error>;

    /// Runs a statement; answers the number of rows changed.
    fn run(
        connection: &mut Self::Connection,
        statement: Statement<'_>,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Runs a statement; answers its rows.
    fn fetch(
        connection: &mut Self::Connection,
        statement: Statement<'_>,
    ) -> impl Future<Output = Result<Vec<Row<Self>>, sqlx::Error>> + Send;

    /// Runs a caller's sqlx query; answers the number of rows changed.
    fn run_query<'q>(
        connection: &'q mut Self::Connection,
        query: Query<'q, Self, Self::Arguments>,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send + 'q;

    /// Runs a caller's sqlx query; answers its first row.
    fn fetch_query<'q>(
        connection: &'q mut Self::Connection,
        query: Query<'q, Self, Self::Arguments>,
    ) -> impl Future<Output = Result<Option<Row<Self>>, sqlx::Error>> + Send + 'q;

    /// Runs a caller's sqlx query; answers all its rows.
    fn fetch_all_query<'q>(
        connection: &'q mut Self::Connection,
        query: Query<'q, Self, Self::Arguments>,
    ) -> impl Future<Output = Result<Vec<Row<Self>>, sqlx::Error>> + Send + 'q;

    /// Makes the open transaction of this connection unable to commit what it has done: until it is rolled back, every
    /// further statement (PostgreSQL), every further write (MySQL) or the `COMMIT` itself (SQLite) fails.
    ///
    /// Rolling back a savepoint that was open at the call frees the outer transaction on PostgreSQL and SQLite. On MySQL the
    /// outer one is undone as well.
    fn poison(connection: &mut Self::Connection) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Fails where the transaction that [`BEGIN_WRITE`](Self::BEGIN_WRITE) or [`mark`](Self::mark) began has ended, been aborted or
    /// poisoned, so that its `COMMIT` would commit nothing and still be reported as done (PostgreSQL, MySQL). Costs a round
    /// trip, and works once per transaction.
    fn probe(connection: &mut Self::Connection) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Makes [`probe`](Self::probe) work in a transaction that was begun with a statement of the caller's.
    fn mark(connection: &mut Self::Connection) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Reads a text column, `None` for NULL.
    fn text(row: &Self::Row, index: usize) -> Result<Option<String>, sqlx::Error>;

    /// Reads an integer column, `None` for NULL.
    fn int(row: &Self::Row, index: usize) -> Result<Option<i64>, sqlx::Error>;

    /// Reads a bytes column, `None` for NULL.
    fn bytes(row: &Self::Row, index: usize) -> Result<Option<Vec<u8>>, sqlx::Error>;

    /// Reads a column of any type that sqlx can decode on this engine.
    fn value<'r, T>(row: &'r Self::Row, index: usize) -> Result<T, sqlx::Error>
    where
        T: sqlx::Decode<'r, Self> + sqlx::Type<Self>;

    /// Reads (version, checksum) pairs of a migration history.
    fn history(
        connection: &mut Self::Connection,
        sql: String,
    ) -> impl Future<Output = Result<Vec<(i64, Vec<u8>)>, sqlx::Error>> + Send;

    /// Applies migrations that the history table `table` does not name yet.
    fn migrate(
        pool: &Pool<Self>,
        table: &'static str,
        migrations: &'static [Migration],
    ) -> impl Future<Output = Result<(), MigrationError>> + Send;
}

mod sealed {
    use sqlx::Database;

    /// Keeps [`Dialect`](super::Dialect) closed, so that a statement can be added without breaking anybody.
    pub trait Sealed: Database {}
}

//! One insert of which the unique key says whether it is the first.

use std::fmt;

use leastlock_core::{Dialect, Engine, ErrorClass, classify};
use sqlx::query::Query;
use sqlx::{Connection, Database};

use crate::error::Error;
use crate::row::out_of_bounds;

/// What an insert found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "an insert that ran without error may have found the key there already"]
pub enum Insertion {
    /// The row is new.
    Inserted,
    /// A row with this key exists; nothing was written.
    AlreadyThere,
}

impl Insertion {
    /// Whether the row is new.
    #[must_use]
    pub const fn is_inserted(self) -> bool {
        matches!(self, Self::Inserted)
    }
}

/// Takes an `INSERT` of one row, whose unique key decides between any number of concurrent callers.
///
/// | engine | the statement |
/// |---|---|
/// | PostgreSQL | `INSERT … ON CONFLICT (key) DO NOTHING` |
/// | SQLite | the same, or a plain `INSERT` |
/// | MySQL, MariaDB | a plain `INSERT`. Never `INSERT IGNORE`: it truncates values, drops rows with other faults, and calls all of that success |
///
/// Only the duplicate is an outcome. Every other error stays one: a NULL in a `NOT NULL` column is not "already there".
///
/// # What it does not promise
/// - A plain `INSERT` and a bare `ON CONFLICT DO NOTHING` do not say *which* unique key was met, and the former not whether it
///   was that of a table which a trigger writes. Name the key, or have one only.
/// - The row that is there may be invisible to the transaction's snapshot (from REPEATABLE READ on). On MySQL, read it with
///   `LOCK IN SHARE MODE`, which looks beyond the snapshot.
/// - On MySQL a duplicate keeps a shared lock on the other row until the transaction ends; so do not update that row
///   afterwards in the same transaction, or two such deadlock (and [`Retry`](crate::Retry) reruns one).
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leastlock_occ::{Insertion, insert_once};
///
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # sqlx::query("CREATE TABLE coupon (code TEXT PRIMARY KEY, customer INTEGER NOT NULL)").execute(&pool).await?;
/// const REDEEM: &str = "INSERT INTO coupon (code, customer) VALUES ($1, $2) ON CONFLICT (code) DO NOTHING";
///
/// let mut tx = pool.begin().await?;
/// let first = insert_once(sqlx::query(REDEEM).bind("SPRING").bind(7)).execute(&mut *tx).await?;
/// assert_eq!(first, Insertion::Inserted);
/// let second = insert_once(sqlx::query(REDEEM).bind("SPRING").bind(8)).execute(&mut *tx).await?;
/// assert_eq!(second, Insertion::AlreadyThere);
/// tx.commit().await?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
pub fn insert_once<DB: Dialect>(query: Query<'_, DB, DB::Arguments>) -> InsertOnce<'_, DB> {
    InsertOnce { query }
}

/// An insert of one row, made by [`insert_once`].
#[must_use = "a statement does nothing until it is executed"]
pub struct InsertOnce<'q, DB: Dialect> {
    query: Query<'q, DB, DB::Arguments>,
}

impl<DB: Dialect> InsertOnce<'_, DB> {
    /// Runs the statement. In a transaction the row becomes final when that commits; a concurrent insert of the same key
    /// waits until then, and is the first if it rolls back.
    ///
    /// # Errors
    /// - [`Error::DuplicateAborted`] on PostgreSQL, in a transaction, for an `INSERT` without `ON CONFLICT` that met a duplicate: the
    ///   answer is known, but the transaction can only be rolled back.
    /// - [`Error::RowsOutOfBounds`] if the statement inserted more than one row, or none without meeting a duplicate (that
    ///   is `INSERT IGNORE` on MySQL). The transaction can then not commit (see
    ///   [`BoundedQuery::execute`](crate::BoundedQuery::execute)); without one the rows *are* written.
    /// - [`Error::Database`].
    ///
    /// # Cancel safety
    /// Dropped half-way, the row may or may not have been inserted. A transaction rolls back when it is dropped; without
    /// one, run it again: `AlreadyThere` may then be the row of the first time.
    pub async fn execute<C>(self, connection: &mut C) -> Result<Insertion, Error>
    where
        C: Connection<Database = DB>,
        DB: Database<Connection = C>,
    {
        match DB::run_query(connection, self.query).await {
            Ok(1) => Ok(Insertion::Inserted),
            Ok(0) if DB::ENGINE != Engine::MySql => Ok(Insertion::AlreadyThere),
            Ok(rows) => Err(out_of_bounds(connection, rows).await?),
            Err(source) if classify::<DB>(&source) == ErrorClass::UniqueViolation => {
                if DB::ENGINE == Engine::Postgres && connection.is_in_transaction() {
                    return Err(Error::DuplicateAborted { source });
                }
                Ok(Insertion::AlreadyThere)
            }
            Err(source) => Err(Error::database::<DB>(source)),
        }
    }
}

impl<DB: Dialect> fmt::Debug for InsertOnce<'_, DB> {
    /// Without the bound values: they may be personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InsertOnce").finish_non_exhaustive()
    }
}

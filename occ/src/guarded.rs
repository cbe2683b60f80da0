//! One conditional statement whose number of changed rows is its answer.

use std::fmt;

use leastlock_core::Dialect;
use sqlx::query::Query;
use sqlx::{Connection, Database, Transaction};

use crate::bound::Bound;
use crate::error::Error;

/// What a guarded statement did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a statement that ran without error may have been refused by its own condition"]
pub enum Guarded {
    /// The condition held and the statement changed rows.
    Applied {
        /// How many, at least one.
        rows: u64,
    },
    /// The condition did not hold: nothing was changed.
    Refused,
}

impl Guarded {
    /// Whether the statement changed rows.
    #[must_use]
    pub const fn is_applied(self) -> bool {
        matches!(self, Self::Applied { .. })
    }

    /// Whether the statement changed nothing.
    #[must_use]
    pub const fn is_refused(self) -> bool {
        matches!(self, Self::Refused)
    }

    const fn from_rows(rows: u64) -> Self {
        if rows == 0 { Self::Refused } else { Self::Applied { rows } }
    }
}

/// Takes one conditional `UPDATE`, `INSERT` or `DELETE`, so that "the SQL ran without error" cannot be read as success.
///
/// The statement's own condition decides, under the row lock that it takes itself: no lock is held before it and no value
/// read earlier is trusted. Rows are counted as the engine counts them, so `query` is *one* statement that changes rows;
/// a `SELECT`, or several statements in one text, have no meaningful count.
///
/// On MySQL and MariaDB a row is counted when it is *matched*, even if it had the values already: sqlx always asks the server
/// for that (`CLIENT_FOUND_ROWS`). Behind a proxy that drops this request, an `UPDATE` that leaves a row as it was is taken
/// for refused; one that also raises a version, as a [`Versioned`](crate::Versioned) row's does, is not. Placeholders are `?`
/// there, each used once.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leastlock_occ::{Guarded, guarded};
///
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # sqlx::query("CREATE TABLE stock (code TEXT PRIMARY KEY, units INTEGER NOT NULL)").execute(&pool).await?;
/// # sqlx::query("INSERT INTO stock VALUES ('85123A', 4)").execute(&pool).await?;
/// const TAKE: &str = "UPDATE stock SET units = units - $1 WHERE code = $2 AND units >= $1";
///
/// let mut tx = pool.begin().await?;
/// let taken = guarded(sqlx::query(TAKE).bind(3).bind("85123A")).execute(&mut *tx).await?;
/// assert_eq!(taken, Guarded::Applied { rows: 1 });
/// let taken = guarded(sqlx::query(TAKE).bind(3).bind("85123A")).execute(&mut *tx).await?;
/// assert!(taken.is_refused());
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
pub fn guarded<DB: Dialect>(query: Query<'_, DB, DB::Arguments>) -> GuardedQuery<'_, DB> {
    GuardedQuery { query }
}

/// A conditional statement, made by [`guarded`].
#[must_use = "a statement does nothing until it is executed"]
pub struct GuardedQuery<'q, DB: Dialect> {
    query: Query<'q, DB, DB::Arguments>,
}

impl<'q, DB: Dialect> GuardedQuery<'q, DB> {
    /// Runs the statement. Its effect becomes final when the caller's transaction commits, or at once where there is none.
    ///
    /// # Errors
    /// [`Error::Database`]. On PostgreSQL the caller's transaction is then aborted and can only be rolled back. So it is on
    /// MySQL after a deadlock, which ends the transaction; any other error there undoes the one statement.
    ///
    /// # Cancel safety
    /// Dropped half-way, the statement may or may not have run. A transaction rolls back when it is dropped; outside of
    /// one, the outcome is unknown until the row is read.
    pub async fn execute<C>(self, connection: &mut C) -> Result<Guarded, Error>
    where
        C: Connection<Database = DB>,
        DB: Database<Connection = C>,
    {
        let rows = DB::run_query(connection, self.query).await.map_err(Error::database::<DB>)?;
        Ok(Guarded::from_rows(rows))
    }

    /// Zero rows are `Ok(Refused)`, with `exactly(1)` too: the statement, *if* it changes rows, has to change exactly `rows` of
    /// them. Look at the outcome, or a refusal passes for success.
    ///
    /// A transaction in which it changed another number cannot commit, even if the error is ignored. On SQLite such a commit
    /// fails with `(code: 787) FOREIGN KEY constraint failed`, which concerns no foreign key of yours; see
    /// [`BoundedQuery::execute`].
    pub fn exactly(self, rows: u64) -> BoundedQuery<'q, DB> {
        self.bounded(Bound::Exactly(rows))
    }

    /// Requires that the statement, if it changes rows, changes `rows` or more; zero are `Ok(Refused)`.
    pub fn at_least(self, rows: u64) -> BoundedQuery<'q, DB> {
        self.bounded(Bound::AtLeast(rows))
    }

    /// Requires that the statement changes no more than `rows` rows.
    pub fn at_most(self, rows: u64) -> BoundedQuery<'q, DB> {
        self.bounded(Bound::AtMost(rows))
    }

    fn bounded(self, bound: Bound) -> BoundedQuery<'q, DB> {
        BoundedQuery { query: self.query, bound }
    }
}

/// A conditional statement that may change a certain number of rows only.
#[must_use = "a statement does nothing until it is executed"]
pub struct BoundedQuery<'q, DB: Dialect> {
    query: Query<'q, DB, DB::Arguments>,
    bound: Bound,
}

impl<DB: Dialect> BoundedQuery<'_, DB> {
    /// Runs the statement in the caller's transaction; the type proves that there is one, so that a statement which
    /// changed too many rows can still be undone.
    ///
    /// Zero rows are [`Guarded::Refused`], whatever the bound.
    ///
    /// # Errors
    /// - [`Error::RowsOutOfBounds`] when the number of rows is neither zero nor allowed. Nothing of the transaction can
    ///   become final then, even if the caller ignores the error and commits:
    ///   on **SQLite** `commit` fails, with `(code: 787) FOREIGN KEY constraint failed`;
    ///   on **PostgreSQL** every further statement fails (`25P02`), and the server turns the `COMMIT` into a `ROLLBACK` *which
    ///   sqlx reports as `Ok`*;
    ///   on **MySQL** all that the transaction has done is undone at once, every further write fails (`1792`), and `COMMIT` is
    ///   `Ok` and commits nothing.
    ///   So treat the error as the end of the transaction; never judge by the commit alone.
    ///   Inside a nested transaction (a savepoint), rolling that one back undoes the statement and frees the outer one; on
    ///   MySQL that fails (`1305`), because the outer one has been undone as well.
    /// - [`Error::Database`].
    ///
    /// # Cancel safety
    /// Dropped half-way, the statement may or may not have run and the bound may not have been checked: drop the
    /// transaction as well, do not commit it.
    pub async fn execute(self, transaction: &mut Transaction<'_, DB>) -> Result<Guarded, Error> {
        let rows = DB::run_query(transaction, self.query).await.map_err(Error::database::<DB>)?;
        if rows == 0 || self.bound.allows(rows) {
            return Ok(Guarded::from_rows(rows));
        }
        DB::poison(transaction).await.map_err(Error::database::<DB>)?;
        Err(Error::RowsOutOfBounds { expected: self.bound, actual: rows })
    }
}

impl<DB: Dialect> fmt::Debug for GuardedQuery<'_, DB> {
    /// Without the bound values: they may be personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedQuery").finish_non_exhaustive()
    }
}

impl<DB: Dialect> fmt::Debug for BoundedQuery<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedQuery").field("bound", &self.bound).finish_non_exhaustive()
    }
}

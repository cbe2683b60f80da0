//! A checked update for those who write their own SQL.

use std::fmt;

use leastlock_core::Dialect;
use sqlx::Transaction;
use sqlx::query::Query;

use crate::bound::Bound;
use crate::conflict::Conflict;
use crate::error::Error;
use crate::version::Version;

/// The outcome of a hand-written checked update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "an update that ran without error may have been refused or met a conflict"]
pub enum Checked {
    /// Written; the row now has this version.
    Applied(Version),
    /// The row has the expected version, so a further condition of the caller's own refused the update. Nothing was
    /// written.
    Refused,
    /// Somebody else came between. Nothing was written.
    Conflict(Conflict),
}

/// Takes an `UPDATE` of one row that checks the version `expected` and raises it by one.
///
/// The statement is the caller's, so it must have both parts: `SET …, version = version + 1` and `WHERE … AND version = $n`
/// with `expected` bound. [`actual_by`](VersionedQuery::actual_by) adds the statement that is run when it changes no row.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leastlock_occ::{Checked, Conflict, Version, versioned};
///
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # sqlx::query("CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER NOT NULL, version INTEGER NOT NULL)").execute(&pool).await?;
/// # sqlx::query("INSERT INTO account VALUES ('a', 100, 5)").execute(&pool).await?;
/// let loaded = Version::new(3);
/// let mut tx = pool.begin().await?;
/// let outcome = versioned(
///     sqlx::query("UPDATE account SET balance = balance - 10, version = version + 1 WHERE id = $1 AND version = $2")
///         .bind("a")
///         .bind(loaded.as_i64()),
///     loaded,
/// )
/// .actual_by(sqlx::query("SELECT version FROM account WHERE id = $1").bind("a"))
/// .execute(&mut tx)
/// .await?;
/// assert_eq!(outcome, Checked::Conflict(Conflict::Stale { expected: loaded, actual: Version::new(5) }));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
pub fn versioned<DB: Dialect>(update: Query<'_, DB, DB::Arguments>, expected: Version) -> VersionedQuery<'_, DB> {
    VersionedQuery { update, expected }
}

/// A checked update, made by [`versioned`], that does not know yet how to read the actual version.
#[must_use = "a statement does nothing until it is executed"]
pub struct VersionedQuery<'q, DB: Dialect> {
    update: Query<'q, DB, DB::Arguments>,
    expected: Version,
}

impl<'q, DB: Dialect> VersionedQuery<'q, DB> {
    /// The statement that reads the version of the same row, as the first column and as a 64-bit integer. It is run only
    /// when the update changed no row. On MySQL end it with `LOCK IN SHARE MODE`: under REPEATABLE READ, the default there, a plain
    /// read may show a version from before the update.
    pub fn actual_by(self, select: Query<'q, DB, DB::Arguments>) -> CheckedQuery<'q, DB> {
        CheckedQuery { update: self.update, expected: self.expected, select }
    }
}

/// A checked update and how to read the actual version.
#[must_use = "a statement does nothing until it is executed"]
pub struct CheckedQuery<'q, DB: Dialect> {
    update: Query<'q, DB, DB::Arguments>,
    expected: Version,
    select: Query<'q, DB, DB::Arguments>,
}

impl<DB: Dialect> CheckedQuery<'_, DB> {
    /// Runs the update and, if it changed no row, the second statement.
    ///
    /// It is a second one on purpose. Under READ COMMITTED an update that waited for another writer's lock judges the
    /// row as it is after the wait, but a sub-query in it still sees the snapshot from before.
    ///
    /// # Errors
    /// [`Error::VersionOverflow`] before any SQL; [`Error::RowsOutOfBounds`] when more than one row was changed, and then
    /// the transaction can no longer commit (see [`BoundedQuery::execute`](crate::BoundedQuery::execute));
    /// [`Error::NullVersion`]; [`Error::VersionType`]; [`Error::Database`].
    ///
    /// # Cancel safety
    /// Dropped half-way, the update may or may not have run: drop the transaction as well, do not commit it.
    pub async fn execute(self, transaction: &mut Transaction<'_, DB>) -> Result<Checked, Error> {
        let next = self.expected.next()?;
        match DB::run_query(transaction, self.update).await.map_err(Error::database::<DB>)? {
            0 => {}
            1 => return Ok(Checked::Applied(next)),
            actual => {
                DB::poison(transaction).await.map_err(Error::database::<DB>)?;
                return Err(Error::RowsOutOfBounds { expected: Bound::Exactly(1), actual });
            }
        }
        let Some(row) = DB::fetch_query(transaction, self.select).await.map_err(Error::database::<DB>)? else {
            return Ok(Checked::Conflict(Conflict::Gone));
        };
        let actual = Error::version_in(&row, 0, ("the `actual_by` statement", "the first column"))?;
        if actual == self.expected {
            return Ok(Checked::Refused);
        }
        Ok(Checked::Conflict(Conflict::Stale { expected: self.expected, actual }))
    }
}

impl<DB: Dialect> fmt::Debug for VersionedQuery<'_, DB> {
    /// Without the bound values: they may be personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionedQuery").field("expected", &self.expected).finish_non_exhaustive()
    }
}

impl<DB: Dialect> fmt::Debug for CheckedQuery<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedQuery").field("expected", &self.expected).finish_non_exhaustive()
    }
}

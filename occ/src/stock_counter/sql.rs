//! The statements of a counter, per engine.

use std::future::Future;
use std::sync::Arc;

use leastlock_core::Row;
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use super::at_once::AtOnce;
use super::counted::Counted;
use super::decision::Found;
use super::table::StockTable;
use crate::combiner::{BatchError, CombinerSql};

#[cfg(any(feature = "sqlite", feature = "mysql"))]
mod json;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

/// An SQL engine on which units are counted. Sealed by [`Dialect`](leastlock_core::Dialect): implemented for `sqlx::Postgres`,
/// `sqlx::Sqlite` and `sqlx::MySql`, each behind the feature of its name.
///
/// # Contract
/// Each method runs a number of statements that does not depend on how many rows and ids it is given; the files in `sql/` say
/// which lock each takes and at which isolation level it is right.
pub trait StockSql: CombinerSql {
    /// age in ms, limit → that many older order ids are deleted.
    const FORGET_ORDERS: &'static str;

    /// The texts for a table. Called once a counter.
    #[doc(hidden)]
    fn texts(table: &StockTable) -> Texts;

    /// Locks the rows of `wanted` in the order of their keys, and reads what was answered under its order ids.
    #[doc(hidden)]
    fn lock(
        connection: &mut Self::Connection,
        texts: &Texts,
        wanted: &Wanted,
    ) -> impl Future<Output = Result<Locked, BatchError>> + Send;

    /// Moves one row, and stores the answer if there is an order id, in one statement and no transaction; answers whether it
    /// did. It need not, whatever the reason. `None` where there is no such statement.
    #[doc(hidden)]
    fn move_one(
        connection: &mut Self::Connection,
        texts: &Texts,
        one: &One<'_>,
    ) -> impl Future<Output = Result<Option<bool>, BatchError>> + Send;

    /// Moves all rows of a batch, or none, in one statement and no transaction; answers as [`move_one`](Self::move_one).
    #[doc(hidden)]
    fn move_at_once(
        connection: &mut Self::Connection,
        texts: &Texts,
        batch: &AtOnce,
    ) -> impl Future<Output = Result<Option<bool>, BatchError>> + Send;

    /// Changes rows that are locked, and stores answers.
    #[doc(hidden)]
    fn write(
        connection: &mut Self::Connection,
        texts: &Texts,
        writes: &Writes,
    ) -> impl Future<Output = Result<Written, BatchError>> + Send;
}

/// The statements that name the application's table.
#[derive(Debug, Clone)]
pub struct Texts {
    lock: SqlStr,
    lock_and_recall: SqlStr,
    move_stock: SqlStr,
    move_and_store: SqlStr,
    move_one: SqlStr,
    #[cfg_attr(
        not(any(feature = "postgres", feature = "sqlite")),
        allow(dead_code, reason = "MySQL has no statement that writes two tables")
    )]
    move_one_and_store: Option<SqlStr>,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only where a round trip costs anything"))]
    move_at_once: Option<SqlStr>,
}

/// A movement of one row that came alone.
#[derive(Debug)]
pub struct One<'a> {
    pub(super) key: &'a str,
    pub(super) delta: i64,
    pub(super) floor: i64,
    /// Id and digest.
    pub(super) order: Option<(&'a str, i64)>,
}

/// What a batch needs to know.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Sorted, each once.
    pub(super) keys: Vec<String>,
    /// Sorted, each once.
    pub(super) order_ids: Vec<String>,
    /// Whether ids may have come in while the rows were waited for at an earlier attempt.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "mysql")),
        allow(dead_code, reason = "only a server can be raced")
    )]
    pub(super) was_raced: bool,
}

/// What the database said.
#[derive(Debug)]
pub struct Locked(pub(super) Found);

/// What a batch writes, sorted by key and by order id.
#[derive(Debug, Default)]
pub struct Writes {
    pub(super) keys: Vec<String>,
    pub(super) deltas: Vec<i64>,
    pub(super) order_ids: Vec<String>,
    pub(super) digests: Vec<i64>,
    pub(super) answers: Vec<String>,
}

/// What was written.
#[derive(Debug)]
pub struct Written {
    pub(super) rows: i64,
    pub(super) orders: i64,
    pub(super) transaction: Option<String>,
}

/// A text with the table's names in it, put together once.
fn built(table: &StockTable, template: &str) -> SqlStr {
    // The names were checked to be plain identifiers.
    AssertSqlSafe(Arc::<str>::from(table.name_in(template))).into_sql_str()
}

impl Found {
    fn take_stock<DB: CombinerSql>(&mut self, row: &Row<DB>) -> Result<(), BatchError> {
        self.rows.insert(row.text(0)?, row.int(1)?);
        Ok(())
    }

    fn take_order<DB: CombinerSql>(&mut self, row: &Row<DB>) -> Result<(), BatchError> {
        let answer = Counted::from_stored(&row.text(2)?).map_err(BatchError::operation)?;
        self.answered.insert(row.text(0)?, (row.int(1)?, answer));
        Ok(())
    }
}

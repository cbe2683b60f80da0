//! The statements of a counter, per engine.

use std::future::Future;
use std::sync::Arc;

use leastlock_core::Row;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use leastlock_core::{Param, Statement};
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
    /// did. It need not, whatever the reason. `None` where there is no such statement. Called with an order id only if the
    /// texts have a statement for one.
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
    move_one_and_store: Option<SqlStr>,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only where a round trip costs anything"))]
    move_at_once: Option<SqlStr>,
}

impl Texts {
    /// Whether a movement with an order id that came alone has a statement.
    pub(super) const fn has_order_alone(&self) -> bool {
        self.move_one_and_store.is_some()
    }
}

/// A movement of one row that came alone.
#[derive(Debug)]
pub struct One<'a> {
    pub(super) key: &'a str,
    pub(super) delta: i64,
    pub(super) floor: i64,
    /// Id and digest.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only there one statement writes two tables"))]
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

/// Locks the rows and looks the order ids up, on a server: both in one statement, unless ids were raced for, which are then
/// read under the locks. `keys` and `order_ids` are the lists of `wanted` as the engine binds them.
#[cfg(any(feature = "postgres", feature = "mysql"))]
async fn lock_and_recall<DB: CombinerSql>(
    connection: &mut DB::Connection,
    texts: &Texts,
    recall: &'static str,
    wanted: &Wanted,
    [keys, order_ids]: [Param<'_>; 2],
) -> Result<Locked, BatchError> {
    let mut found = Found::default();
    if !wanted.order_ids.is_empty() && !wanted.was_raced {
        let both = Statement::new(texts.lock_and_recall.clone()).bind(keys).bind(order_ids);
        for row in both.fetch_all::<DB>(connection).await? {
            // An order has an answer, a row of stock has none.
            match row.optional_text(2)? {
                None => found.take_stock(&row)?,
                Some(_) => found.take_order(&row)?,
            }
        }
        return Ok(Locked(found));
    }
    let lock = Statement::new(texts.lock.clone()).bind(keys);
    for row in lock.fetch_all::<DB>(&mut *connection).await? {
        found.take_stock(&row)?;
    }
    if !wanted.order_ids.is_empty() {
        for row in Statement::new(recall).bind(order_ids).fetch_all::<DB>(connection).await? {
            found.take_order(&row)?;
        }
    }
    Ok(Locked(found))
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

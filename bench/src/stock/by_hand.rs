//! The statements in sqlx alone, as one writes them without the library, and `guarded` around one of them.

use anyhow::ensure;
use leastlock_core::Dialect;
use leastlock_occ::{Version, guarded};
use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use sqlx::Pool;

use super::item::{self, Item};
use crate::contest::Done;

/// The statements of this scenario. Each method answers whether there was a unit.
pub(crate) trait StockByHand: Dialect {
    /// Makes `stock`, whose rows have a version that only versioned updates write, and the order ids of
    /// [`order`](Self::order).
    const TABLES: [&'static str; 2];
    /// Removes all rows as cheaply as the engine can.
    const EMPTY_STOCK: &'static str;
    /// Removes all order ids as cheaply as the engine can: those of [`order`](Self::order), and those of the library.
    const EMPTY_ORDERS: [&'static str; 2];
    /// rows, units → that many rows with that many units each, named `item-0` and so on.
    const OPEN: &'static str;
    /// → units in all rows.
    const SUM: &'static str;
    /// → units below zero in all rows.
    const OVERDRAWN: &'static str;

    /// units, code (, units) → takes that many if they are there.
    const TAKE: &'static str;
    /// units, code → writes what is left.
    const WRITE: &'static str;

    /// Conditional UPDATE.
    fn take(pool: &Pool<Self>, code: &str) -> impl Future<Output = anyhow::Result<bool>> + Send;

    /// The same with the library.
    fn take_guarded(pool: &Pool<Self>, code: &str) -> impl Future<Output = anyhow::Result<bool>> + Send;

    /// Locks the row, reads it, writes what is left.
    fn take_under_lock(pool: &Pool<Self>, code: &str) -> impl Future<Output = anyhow::Result<bool>> + Send;

    /// Keeps the id and takes a unit by a conditional UPDATE, in one transaction. The id is kept if there is none as well.
    fn order(pool: &Pool<Self>, id: &str, code: &str) -> impl Future<Output = anyhow::Result<bool>> + Send;

    /// Checked UPDATE of a row that nobody else writes; the item is then as it stands in the table.
    fn take_checked(pool: &Pool<Self>, item: &mut Item) -> impl Future<Output = anyhow::Result<bool>> + Send;

    /// The same with the library.
    fn take_versioned(pool: &Pool<Self>, item: &mut Item) -> impl Future<Output = anyhow::Result<bool>> + Send;

    /// Load, checked update and commit with the library, again after a conflict.
    fn take_with_retry(pool: &Pool<Self>, code: &str) -> impl Future<Output = anyhow::Result<Done>> + Send;

    /// The mistake: reads, then writes what is left, without a lock.
    fn take_unlocked(pool: &Pool<Self>, code: &str) -> impl Future<Output = anyhow::Result<bool>> + Send;
}

/// sqlx's bounds on generic queries fill a page. `$sql` is the folder of the statements that have other placeholders; `$again`
/// binds the units once more where a placeholder stands for one place only.
macro_rules! stock_by_hand {
    (
        $engine:ty, $sql:literal, locking: $locking:literal, begin: $begin:literal, empty: $empty:literal,
        key: $key:literal, integer: $integer:literal, again: {$($again:tt)*}
    ) => {
        impl StockByHand for $engine {
            const TABLES: [&'static str; 2] = [
                concat!(
                    "CREATE TABLE stock (code ",
                    $key,
                    " PRIMARY KEY, units bigint NOT NULL, version bigint NOT NULL DEFAULT 1)"
                ),
                concat!("CREATE TABLE plain_order (order_id ", $key, " PRIMARY KEY)"),
            ];
            const EMPTY_STOCK: &'static str = concat!($empty, " stock");
            const EMPTY_ORDERS: [&'static str; 2] =
                [concat!($empty, " plain_order"), concat!($empty, " leastlock_occ_order")];
            const OPEN: &'static str = include_str!(concat!("../../sql/", $sql, "open_stock.sql"));
            const SUM: &'static str = concat!("SELECT CAST(sum(units) AS ", $integer, ") FROM stock");
            const OVERDRAWN: &'static str = concat!(
                "SELECT CAST(coalesce(sum(CASE WHEN units < 0 THEN -units END), 0) AS ",
                $integer,
                ") FROM stock"
            );

            const TAKE: &'static str = include_str!(concat!("../../sql/", $sql, "take.sql"));
            const WRITE: &'static str = include_str!(concat!("../../sql/", $sql, "write_units.sql"));

            async fn take(pool: &Pool<Self>, code: &str) -> anyhow::Result<bool> {
                let mut connection = pool.acquire().await?;
                let take = sqlx::query(Self::TAKE).bind(1_i64).bind(code)$($again)*;
                Ok(take.execute(&mut *connection).await?.rows_affected() == 1)
            }

            async fn take_guarded(pool: &Pool<Self>, code: &str) -> anyhow::Result<bool> {
                let mut connection = pool.acquire().await?;
                let take = sqlx::query(Self::TAKE).bind(1_i64).bind(code)$($again)*;
                Ok(guarded(take).execute(&mut *connection).await?.is_applied())
            }

            async fn take_under_lock(pool: &Pool<Self>, code: &str) -> anyhow::Result<bool> {
                const READ: &str = include_str!(concat!("../../sql/", $locking, "/read_for_update.sql"));
                let mut tx = pool.begin_with($begin).await?;
                let units: i64 = sqlx::query_scalar(READ).bind(code).fetch_one(&mut *tx).await?;
                if units < 1 {
                    tx.rollback().await?;
                    return Ok(false);
                }
                sqlx::query(Self::WRITE).bind(units - 1).bind(code).execute(&mut *tx).await?;
                tx.commit().await?;
                Ok(true)
            }

            async fn order(pool: &Pool<Self>, id: &str, code: &str) -> anyhow::Result<bool> {
                const INSERT: &str = include_str!(concat!("../../sql/", $sql, "insert_order.sql"));
                let mut tx = pool.begin_with($begin).await?;
                sqlx::query(INSERT).bind(id).execute(&mut *tx).await?;
                let take = sqlx::query(Self::TAKE).bind(1_i64).bind(code)$($again)*;
                let taken = take.execute(&mut *tx).await?.rows_affected() == 1;
                tx.commit().await?;
                Ok(taken)
            }

            async fn take_checked(pool: &Pool<Self>, item: &mut Item) -> anyhow::Result<bool> {
                const WRITE: &str = include_str!(concat!("../../sql/", $sql, "write_checked.sql"));
                if item.units < 1 {
                    return Ok(false);
                }
                let mut connection = pool.acquire().await?;
                let write = sqlx::query(WRITE).bind(item.units - 1).bind(&item.code).bind(item.version.as_i64());
                let written = write.execute(&mut *connection).await?.rows_affected();
                ensure!(written == 1, "somebody else wrote {}", item.code);
                item.units -= 1;
                item.version = Version::new(item.version.as_i64() + 1);
                Ok(true)
            }

            async fn take_versioned(pool: &Pool<Self>, item: &mut Item) -> anyhow::Result<bool> {
                item::take(pool, item).await
            }

            async fn take_with_retry(pool: &Pool<Self>, code: &str) -> anyhow::Result<Done> {
                item::take_with_retry(pool, code).await
            }

            async fn take_unlocked(pool: &Pool<Self>, code: &str) -> anyhow::Result<bool> {
                const READ: &str = include_str!(concat!("../../sql/", $sql, "read_unlocked.sql"));
                let units: i64 = sqlx::query_scalar(READ).bind(code).fetch_one(pool).await?;
                if units > 0 {
                    sqlx::query(Self::WRITE).bind(units - 1).bind(code).execute(pool).await?;
                }
                Ok(units > 0)
            }
        }
    };
}

stock_by_hand!(
    Postgres, "", locking: "postgres", begin: "BEGIN", empty: "TRUNCATE TABLE", key: "text", integer: "bigint", again: {}
);
stock_by_hand!(
    Sqlite, "", locking: "sqlite", begin: "BEGIN IMMEDIATE", empty: "DELETE FROM", key: "text", integer: "bigint",
    again: {}
);
// A collation of text would take two codes for one.
stock_by_hand!(
    MySql, "mysql/", locking: "mysql", begin: "BEGIN", empty: "TRUNCATE TABLE", key: "varbinary(64)", integer: "signed",
    again: {.bind(1_i64)}
);

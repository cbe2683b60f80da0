//! SQLite: lists as JSON, inside the one write transaction.

use leastlock_core::Statement;
use sqlx::{SqlStr, Sqlite};

use super::{Locked, One, StockSql, Texts, Wanted, Writes, Written, built, json};
use crate::combiner::BatchError;
use crate::stock_counter::at_once::AtOnce;
use crate::stock_counter::decision::Found;
use crate::stock_counter::table::StockTable;

const LOCK: &str = include_str!("../../../sql/sqlite/lock_stock.sql");
const RECALL: &str = include_str!("../../../sql/sqlite/recall.sql");
const MOVE: &str = include_str!("../../../sql/sqlite/move_stock.sql");
const STORE: &str = include_str!("../../../sql/sqlite/store_orders.sql");
const MOVE_ONE: &str = include_str!("../../../sql/sqlite/move_one.sql");

impl StockSql for Sqlite {
    const FORGET_ORDERS: &'static str = include_str!("../../../sql/sqlite/forget_orders.sql");

    /// The statements run in the process, so one for both things would gain nothing.
    fn texts(table: &StockTable) -> Texts {
        Texts {
            lock: built(table, LOCK),
            lock_and_recall: SqlStr::from_static(RECALL),
            move_stock: built(table, MOVE),
            move_and_store: SqlStr::from_static(STORE),
            move_one: built(table, MOVE_ONE),
            move_one_and_store: None,
            move_at_once: None,
        }
    }

    async fn lock(connection: &mut Self::Connection, texts: &Texts, wanted: &Wanted) -> Result<Locked, BatchError> {
        let mut found = Found::default();
        let keys = json::texts(&wanted.keys);
        for row in Statement::new(texts.lock.clone()).bind(&keys).fetch_all::<Self>(&mut *connection).await? {
            found.take_stock(&row)?;
        }
        if !wanted.order_ids.is_empty() {
            let order_ids = json::texts(&wanted.order_ids);
            let recall = Statement::new(texts.lock_and_recall.clone()).bind(&order_ids);
            for row in recall.fetch_all::<Self>(connection).await? {
                found.take_order(&row)?;
            }
        }
        Ok(Locked(found))
    }

    async fn move_one(
        connection: &mut Self::Connection,
        texts: &Texts,
        one: &One<'_>,
    ) -> Result<Option<bool>, BatchError> {
        let statement = Statement::new(texts.move_one.clone()).bind(one.key).bind(one.delta).bind(one.floor);
        Ok(Some(statement.execute::<Self>(connection).await? == 1))
    }

    async fn move_at_once(
        _connection: &mut Self::Connection,
        _texts: &Texts,
        _batch: &AtOnce,
    ) -> Result<Option<bool>, BatchError> {
        Ok(None)
    }

    async fn write(connection: &mut Self::Connection, texts: &Texts, writes: &Writes) -> Result<Written, BatchError> {
        let (mut rows, mut orders) = (0, 0);
        if !writes.keys.is_empty() {
            let changes = json::changes(writes);
            let statement = Statement::new(texts.move_stock.clone()).bind(&changes);
            rows = statement.execute::<Self>(&mut *connection).await?;
        }
        if !writes.order_ids.is_empty() {
            let ids = json::orders(writes);
            let statement = Statement::new(texts.move_and_store.clone()).bind(&ids);
            orders = statement.execute::<Self>(connection).await?;
        }
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Ok(Written { rows: count(rows), orders: count(orders), transaction: None })
    }
}

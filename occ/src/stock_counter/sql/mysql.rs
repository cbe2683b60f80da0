//! MySQL and MariaDB: lists as JSON, and two or three statements a batch.

use leastlock_core::{ErrorClass, Statement, classify};
use sqlx::MySql;

use super::{Locked, One, StockSql, Texts, Wanted, Writes, Written, built, json, lock_and_recall};
use crate::combiner::BatchError;
use crate::stock_counter::at_once::AtOnce;
use crate::stock_counter::table::StockTable;

const LOCK: &str = include_str!("../../../sql/mysql/lock_stock.sql");
const LOCK_AND_RECALL: &str = include_str!("../../../sql/mysql/lock_stock_and_recall.sql");
const RECALL: &str = include_str!("../../../sql/mysql/recall.sql");
const MOVE: &str = include_str!("../../../sql/mysql/move_stock.sql");
const STORE: &str = include_str!("../../../sql/mysql/store_orders.sql");
const MOVE_ONE: &str = include_str!("../../../sql/mysql/move_one.sql");

impl StockSql for MySql {
    const FORGET_ORDERS: &'static str = include_str!("../../../sql/mysql/forget_orders.sql");

    fn texts(table: &StockTable) -> Texts {
        Texts {
            lock: built(table, LOCK),
            lock_and_recall: built(table, LOCK_AND_RECALL),
            move_stock: built(table, MOVE),
            // No statement here writes two tables.
            move_and_store: built(table, STORE),
            move_one: built(table, MOVE_ONE),
            move_one_and_store: None,
            move_at_once: None,
        }
    }

    async fn lock(connection: &mut Self::Connection, texts: &Texts, wanted: &Wanted) -> Result<Locked, BatchError> {
        let lists = [json::texts(&wanted.keys), json::texts(&wanted.order_ids)];
        let lists = lists.each_ref().map(Into::into);
        lock_and_recall::<Self>(connection, texts, RECALL, wanted, lists).await
    }

    async fn move_one(
        connection: &mut Self::Connection,
        texts: &Texts,
        one: &One<'_>,
    ) -> Result<Option<bool>, BatchError> {
        let statement = Statement::new(texts.move_one.clone()).bind(one.delta).bind(one.key);
        let moved = statement.bind(one.delta).bind(one.delta).bind(one.floor).execute::<Self>(connection).await;
        match moved {
            // Somebody has it locked.
            Err(error) if classify::<Self>(&error) == ErrorClass::LockTimeout => Ok(Some(false)),
            moved => Ok(Some(moved? == 1)),
        }
    }

    async fn move_at_once(
        _connection: &mut Self::Connection,
        _texts: &Texts,
        _batch: &AtOnce,
    ) -> Result<Option<bool>, BatchError> {
        Ok(None)
    }

    /// First the ids: if another transaction has come before, no row was changed in vain.
    async fn write(connection: &mut Self::Connection, texts: &Texts, writes: &Writes) -> Result<Written, BatchError> {
        let (mut rows, mut orders) = (0, 0);
        if !writes.order_ids.is_empty() {
            let ids = json::orders(writes);
            let store = Statement::new(texts.move_and_store.clone()).bind(&ids);
            orders = match store.execute::<Self>(&mut *connection).await {
                Err(error) if classify::<Self>(&error) == ErrorClass::UniqueViolation => return Err(BatchError::Raced),
                stored => stored?,
            };
        }
        if !writes.keys.is_empty() {
            let changes = json::changes(writes);
            rows = Statement::new(texts.move_stock.clone()).bind(&changes).execute::<Self>(connection).await?;
        }
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Ok(Written { rows: count(rows), orders: count(orders), transaction: None })
    }
}

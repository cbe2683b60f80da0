//! PostgreSQL: arrays, and one statement or two a batch.

use leastlock_core::Statement;
use sqlx::Postgres;

use super::{Locked, One, StockSql, Texts, Wanted, Writes, Written, built, lock_and_recall};
use crate::combiner::BatchError;
use crate::stock_counter::at_once::AtOnce;
use crate::stock_counter::table::StockTable;

const LOCK: &str = include_str!("../../../sql/postgres/lock_stock.sql");
const LOCK_AND_RECALL: &str = include_str!("../../../sql/postgres/lock_stock_and_recall.sql");
const RECALL: &str = include_str!("../../../sql/postgres/recall.sql");
const MOVE: &str = include_str!("../../../sql/postgres/move_stock.sql");
const MOVE_AND_STORE: &str = include_str!("../../../sql/postgres/move_stock_and_store.sql");
const MOVE_ONE: &str = include_str!("../../../sql/postgres/move_one.sql");
const MOVE_AT_ONCE: &str = include_str!("../../../sql/postgres/move_at_once.sql");
const MOVE_ONE_AND_STORE: &str = include_str!("../../../sql/postgres/move_one_and_store.sql");

impl StockSql for Postgres {
    const FORGET_ORDERS: &'static str = include_str!("../../../sql/postgres/forget_orders.sql");

    fn texts(table: &StockTable) -> Texts {
        Texts {
            lock: built(table, LOCK),
            lock_and_recall: built(table, LOCK_AND_RECALL),
            move_stock: built(table, MOVE),
            move_and_store: built(table, MOVE_AND_STORE),
            move_one: built(table, MOVE_ONE),
            move_one_and_store: Some(built(table, MOVE_ONE_AND_STORE)),
            move_at_once: Some(built(table, MOVE_AT_ONCE)),
        }
    }

    async fn lock(connection: &mut Self::Connection, texts: &Texts, wanted: &Wanted) -> Result<Locked, BatchError> {
        let lists = [wanted.keys[..].into(), wanted.order_ids[..].into()];
        lock_and_recall::<Self>(connection, texts, RECALL, wanted, lists).await
    }

    async fn move_one(
        connection: &mut Self::Connection,
        texts: &Texts,
        one: &One<'_>,
    ) -> Result<Option<bool>, BatchError> {
        let text = if one.order.is_some() { texts.move_one_and_store.as_ref() } else { Some(&texts.move_one) };
        let Some(text) = text else { return Ok(None) };
        let mut statement = Statement::new(text.clone()).bind(one.key).bind(one.delta).bind(one.floor);
        if let Some((order_id, digest)) = one.order {
            statement = statement.bind(order_id).bind(digest);
        }
        Ok(Some(statement.execute::<Self>(connection).await? == 1))
    }

    async fn move_at_once(
        connection: &mut Self::Connection,
        texts: &Texts,
        batch: &AtOnce,
    ) -> Result<Option<bool>, BatchError> {
        let Some(text) = &texts.move_at_once else { return Ok(None) };
        let statement = Statement::new(text.clone()).bind(&batch.keys[..]).bind(&batch.deltas[..]);
        let row = statement.bind(&batch.least[..]).bind(&batch.most[..]).fetch_one::<Self>(connection).await?;
        Ok(Some(row.int(0)? > 0))
    }

    async fn write(connection: &mut Self::Connection, texts: &Texts, writes: &Writes) -> Result<Written, BatchError> {
        let (keys, deltas) = (&writes.keys[..], &writes.deltas[..]);
        let statement = if writes.order_ids.is_empty() {
            Statement::new(texts.move_stock.clone()).bind(keys).bind(deltas)
        } else {
            let both = Statement::new(texts.move_and_store.clone()).bind(keys).bind(deltas);
            both.bind(&writes.order_ids[..]).bind(&writes.digests[..]).bind(&writes.answers[..])
        };
        let row = statement.fetch_one::<Self>(connection).await?;
        Ok(Written { rows: row.int(0)?, orders: row.int(1)?, transaction: Some(row.text(2)?) })
    }
}

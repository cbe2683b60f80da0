//! What is there: orders, stock and keys in the database, events in the topic.

use leastlock_core::{Row, Statement};
use leastlock_outbox::sink::EVENT_ID_HEADER;
use leastlock_testkit::checkers::order::Delivery;
use leastlock_testkit::database::sql;

use super::shop::{Engine, Moved};
use crate::ground::Ground;

/// An order as it stands in the database: an effect.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) key: String,
    pub(super) item: i64,
    pub(super) units: i64,
    pub(super) sequence: i64,
}

/// All of it, the database as of one moment and the topic as of another before it.
#[derive(Debug, Clone, Default)]
pub(super) struct Books {
    pub(super) orders: Vec<Placed>,
    /// Of the items that were sold at least once: which, and how many units are left.
    pub(super) stock: Vec<(i64, i64)>,
    /// Each key, and whether it stands at an end.
    pub(super) keys: Vec<(String, bool)>,
    /// Each event in the order of its partition, and the order that it speaks of.
    pub(super) events: Vec<(Delivery, String)>,
}

impl Books {
    pub(super) async fn read<DB: Engine>(ground: &Ground) -> anyhow::Result<Self> {
        let mut events = Vec::new();
        for record in ground.records().await? {
            let moved: Moved = serde_json::from_slice(record.value.as_deref().unwrap_or_default())?;
            let event_id = record.header(EVENT_ID_HEADER).map(String::from_utf8_lossy).unwrap_or_default();
            let sequence = moved.sequence.unsigned_abs();
            events.push((Delivery::new(record.key_text(), sequence, event_id), moved.order));
        }
        let mut tx = ground.database::<DB>()?.pool.begin_with(DB::SNAPSHOT).await?;
        let orders = Statement::new(include_str!("../../sql/intake/all_orders.sql")).fetch_all::<DB>(&mut tx).await?;
        let stock = Statement::new(include_str!("../../sql/intake/all_stock.sql")).fetch_all::<DB>(&mut tx).await?;
        let keys = sql::<DB>(
            include_str!("../../sql/intake/all_keys.sql"),
            include_str!("../../sql/intake/all_keys_mysql.sql"),
        );
        let keys = Statement::new(keys).fetch_all::<DB>(&mut tx).await?;
        tx.rollback().await?;
        let placed = |row: &Row<DB>| {
            Ok(Placed { key: row.text(0)?, item: row.int(1)?, units: row.int(2)?, sequence: row.int(3)? })
        };
        Ok(Self {
            orders: orders.iter().map(placed).collect::<Result<_, sqlx::Error>>()?,
            stock: stock.iter().map(|row| Ok((row.int(0)?, row.int(1)?))).collect::<Result<_, sqlx::Error>>()?,
            keys: keys
                .iter()
                .map(|row| Ok((row.text(0)?, row.text(1)? == "completed")))
                .collect::<Result<_, sqlx::Error>>()?,
            events,
        })
    }
}

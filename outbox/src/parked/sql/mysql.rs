//! The statements for MariaDB and MySQL.

use leastlock_core::{Row, Statement};
use serde_json::json;
use sqlx::MySql;

use super::ParkedSql;

const ASKED: &str = include_str!("../../../sql/mysql/park_asked.sql");
const AMONG: &str = include_str!("../../../sql/mysql/park_among.sql");
const SENT: &str = include_str!("../../../sql/mysql/park_sent.sql");

impl ParkedSql for MySql {
    const BOUND: Option<&'static str> = Some(include_str!("../../../sql/mysql/park_bound.sql"));
    const BLOCKED: &'static str = include_str!("../../../sql/mysql/park_blocked.sql");
    const HEAD: &'static str = include_str!("../../../sql/mysql/park_head.sql");
    const FENCE: &'static str = include_str!("../../../sql/mysql/park_fence.sql");
    const REFUSED: &'static str = include_str!("../../../sql/mysql/park_refused.sql");
    const ALONE: &'static str = include_str!("../../../sql/mysql/park_alone.sql");
    const BLOCK: &'static str = include_str!("../../../sql/mysql/park_block.sql");
    const OPEN: &'static str = include_str!("../../../sql/mysql/park_open.sql");
    const FIND: &'static str = include_str!("../../../sql/mysql/parked_find.sql");
    const LOCK: &'static str = include_str!("../../../sql/mysql/parked_lock.sql");
    const FIRST: &'static str = include_str!("../../../sql/mysql/parked_first.sql");
    const ASK: &'static str = include_str!("../../../sql/mysql/parked_ask.sql");
    const TOPIC: &'static str = include_str!("../../../sql/mysql/parked_topic.sql");
    const ASK_TOPIC: &'static str = include_str!("../../../sql/mysql/parked_ask_topic.sql");
    const AUDIT: &'static str = include_str!("../../../sql/mysql/parked_audit.sql");
    const COUNT: &'static str = include_str!("../../../sql/mysql/parked_count.sql");
    const LIST: &'static str = include_str!("../../../sql/mysql/parked_list.sql");
    const ONE: &'static str = include_str!("../../../sql/mysql/parked_read.sql");
    const HISTORY: &'static str = include_str!("../../../sql/mysql/parked_history.sql");

    async fn asked(
        connection: &mut Self::Connection,
        shards: &[i64],
        after: &str,
        limit: i64,
    ) -> Result<Vec<Row<Self>>, sqlx::Error> {
        let shards = json!(shards).to_string();
        Statement::new(ASKED).bind(&shards).bind(after).bind(limit).fetch_all::<Self>(connection).await
    }

    async fn blocked_among(connection: &mut Self::Connection, queues: &[String]) -> Result<Vec<String>, sqlx::Error> {
        let queues = json!(queues).to_string();
        let rows = Statement::new(AMONG).bind(&queues).fetch_all::<Self>(connection).await?;
        rows.iter().map(|row| row.text(0)).collect()
    }

    async fn forget(connection: &mut Self::Connection, shard: i64, ids: &[i64]) -> Result<u64, sqlx::Error> {
        let sent = json!(ids.iter().map(|id| (shard, id)).collect::<Vec<_>>()).to_string();
        Statement::new(SENT).bind(&sent).execute::<Self>(connection).await
    }
}

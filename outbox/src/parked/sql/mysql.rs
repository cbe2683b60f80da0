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
    const BOUND_TRANSACTION: Option<&'static str> = None;
    statements!("mysql");

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

//! The statements for SQLite: they run in the process, so one for many events would gain nothing.

use leastlock_core::{Row, Statement};
use sqlx::Sqlite;

use super::ParkedSql;
use crate::parked::park::Park;

const QUEUE: &str = include_str!("../../../sql/sqlite/park_queue.sql");
const EVENT: &str = include_str!("../../../sql/sqlite/park_event.sql");
const ASKED: &str = include_str!("../../../sql/sqlite/park_asked.sql");
const AMONG: &str = include_str!("../../../sql/sqlite/park_among.sql");
const SENT: &str = include_str!("../../../sql/sqlite/park_sent.sql");

impl ParkedSql for Sqlite {
    const BOUND: Option<&'static str> = None;
    const BOUND_TRANSACTION: Option<&'static str> = None;
    statements!("sqlite");

    async fn asked(
        connection: &mut Self::Connection,
        _shards: &[i64],
        after: &str,
        limit: i64,
    ) -> Result<Vec<Row<Self>>, sqlx::Error> {
        Statement::new(ASKED).bind(after).bind(limit).fetch_all::<Self>(connection).await
    }

    async fn blocked_among(connection: &mut Self::Connection, queues: &[String]) -> Result<Vec<String>, sqlx::Error> {
        let mut blocked = Vec::new();
        for queue in queues {
            let row = Statement::new(AMONG).bind(queue).fetch_optional::<Self>(&mut *connection).await?;
            blocked.extend(row.map(|row| row.text(0)).transpose()?);
        }
        Ok(blocked)
    }

    async fn forget(connection: &mut Self::Connection, shard: i64, ids: &[i64]) -> Result<u64, sqlx::Error> {
        let mut forgotten = 0;
        for &id in ids {
            forgotten += Statement::new(SENT).bind(shard).bind(id).execute::<Self>(&mut *connection).await?;
        }
        Ok(forgotten)
    }
}

/// Parks events of a shard, in the transaction that notes them and after its lock on the shard's row.
pub(crate) async fn park(
    connection: &mut sqlx::SqliteConnection,
    shard: i64,
    parks: &[Park],
) -> Result<(), sqlx::Error> {
    for park in parks {
        let (queue, refused) = (park.queue.to_string(), i64::from(park.cause.is_refusal()));
        let blocks = i64::from(park.cause.blocks());
        let stand = Statement::new(QUEUE).bind(shard).bind(park.id).bind(&queue).bind(blocks).bind(refused);
        stand.execute::<Sqlite>(&mut *connection).await?;
        let event = Statement::new(EVENT).bind(shard).bind(park.id).bind(&queue).bind(refused);
        event.bind(park.cause.reason()).execute::<Sqlite>(&mut *connection).await?;
    }
    Ok(())
}

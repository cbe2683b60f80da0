//! The statements for PostgreSQL: many events travel in one.

use leastlock_core::{Row, Statement};
use sqlx::Postgres;

use super::ParkedSql;
use crate::parked::park::Park;

const QUEUES: &str = include_str!("../../../sql/postgres/park_queues.sql");
const EVENTS: &str = include_str!("../../../sql/postgres/park_events.sql");
const ASKED: &str = include_str!("../../../sql/postgres/park_asked.sql");
const AMONG: &str = include_str!("../../../sql/postgres/park_among.sql");
const SENT: &str = include_str!("../../../sql/postgres/park_sent.sql");

impl ParkedSql for Postgres {
    const BOUND: Option<&'static str> = None;
    const BOUND_TRANSACTION: Option<&'static str> = Some(include_str!("../../../sql/postgres/idle_limit.sql"));
    statements!("postgres");

    async fn asked(
        connection: &mut Self::Connection,
        shards: &[i64],
        after: &str,
        limit: i64,
    ) -> Result<Vec<Row<Self>>, sqlx::Error> {
        Statement::new(ASKED).bind(shards).bind(after).bind(limit).fetch_all::<Self>(connection).await
    }

    async fn blocked_among(connection: &mut Self::Connection, queues: &[String]) -> Result<Vec<String>, sqlx::Error> {
        let rows = Statement::new(AMONG).bind(queues).fetch_all::<Self>(connection).await?;
        rows.iter().map(|row| row.text(0)).collect()
    }

    async fn forget(connection: &mut Self::Connection, shard: i64, ids: &[i64]) -> Result<u64, sqlx::Error> {
        Statement::new(SENT).bind(shard).bind(ids).execute::<Self>(connection).await
    }
}

/// Parks events, each with its shard, in the transaction that notes them and after its locks on the shards' rows. All events of the
/// transaction at once: queues are locked in the order of their names over all shards, as operators lock them.
pub(crate) async fn park(connection: &mut sqlx::PgConnection, parks: &[(i64, Park)]) -> Result<(), sqlx::Error> {
    let shards: Vec<i64> = parks.iter().map(|(shard, _)| *shard).collect();
    let parks = || parks.iter().map(|(_, park)| park);
    let ids: Vec<i64> = parks().map(|park| park.id).collect();
    let queues: Vec<String> = parks().map(|park| park.queue.to_string()).collect();
    let blocks: Vec<i64> = parks().map(|park| i64::from(park.cause.blocks())).collect();
    let refused: Vec<i64> = parks().map(|park| i64::from(park.cause.is_refusal())).collect();
    let reasons: Vec<String> = parks().map(|park| park.cause.reason().to_owned()).collect();
    let queue = Statement::new(QUEUES).bind(&shards[..]).bind(&ids[..]).bind(&queues[..]);
    queue.bind(&blocks[..]).bind(&refused[..]).execute::<Postgres>(&mut *connection).await?;
    let events = Statement::new(EVENTS).bind(&shards[..]).bind(&ids[..]).bind(&queues[..]);
    events.bind(&refused[..]).bind(&reasons[..]).execute::<Postgres>(connection).await.map(drop)
}

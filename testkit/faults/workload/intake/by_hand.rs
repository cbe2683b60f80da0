//! Relays as they are often written, each with its classic mistake; on PostgreSQL.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use leastlock_core::{Row, Statement};
use leastlock_outbox::sink::EVENT_ID_HEADER;
use leastlock_testkit::database::Postgres;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use sqlx::{PgConnection, PgPool};

use super::mutant::{BY_ID, EXPIRY, MARKED_FIRST, PIPELINED, SKIP_LOCKED};
use super::relay::producer;
use super::shop::Moved;
use crate::ground::{OfGround, Server};
use crate::part::Part;
use crate::pool::Pooled;

/// Where the relay that marks first may be killed.
pub(super) const MARKED: &str = "marked";
const LOOK: Duration = Duration::from_millis(50);
/// The largest message of the producer whose refused ones are sent again, in bytes.
pub(super) const LARGEST: usize = 1_000;
/// So long that one collects a few of each key.
const GATHER: Duration = Duration::from_millis(500);
/// The expiry of messages that is the mistake.
const EXPIRES_MS: &str = "1500";
/// How long a message may take otherwise.
const SEND_LIMIT_MS: &str = "60000";
const SEND_LIMIT: Duration = Duration::from_mins(1);

/// An event in the log.
#[derive(Debug, Clone)]
struct Logged {
    shard: i64,
    id: i64,
    key: String,
    value: String,
    event_id: String,
}

/// A relay with a mistake.
struct ByHand<'a> {
    part: &'a Part,
    pool: PgPool,
    producer: FutureProducer,
}

pub(super) async fn play(part: &Part, mistake: &str) -> anyhow::Result<()> {
    let pool = Postgres::lazy(part.address(Postgres::SERVER)?, 2)?;
    let mut config = producer(part.address(Server::Kafka)?);
    config.set("message.timeout.ms", if mistake == EXPIRY { EXPIRES_MS } else { SEND_LIMIT_MS });
    if mistake == PIPELINED {
        config.set("message.max.bytes", LARGEST.to_string());
    }
    let by_hand = ByHand { part, pool, producer: config.set("enable.idempotence", "true").create()? };
    // Only where several at once are the mistake there is more than one.
    if mistake != SKIP_LOCKED && part.task.number > 0 {
        part.shutdown.cancelled().await;
        return Ok(());
    }
    let mut cursor = 0;
    while !part.shutdown.is_cancelled() {
        let done = async {
            match mistake {
                BY_ID => by_hand.after(&mut cursor).await,
                MARKED_FIRST => by_hand.marked_first().await,
                SKIP_LOCKED => by_hand.skip_locked().await,
                PIPELINED => by_hand.pipelined().await,
                _ => by_hand.expiring().await,
            }
        };
        // A database that is away is tried again.
        let _ = part.shutdown.run_until_cancelled(done).await;
        part.pause(LOOK).await;
    }
    Ok(())
}

impl ByHand<'_> {
    /// What commits late with a lower id is never read.
    async fn after(&self, cursor: &mut i64) -> anyhow::Result<()> {
        let mut connection = self.pool.acquire().await?;
        let after = Statement::new(include_str!("../../sql/intake/mutant_after_id.sql")).bind(*cursor);
        for event in events(&after.fetch_all::<Postgres>(&mut connection).await?)? {
            self.send(&event).await?;
            *cursor = event.id;
        }
        Ok(())
    }

    /// What is noted as sent and was not is lost.
    async fn marked_first(&self) -> anyhow::Result<()> {
        let mut connection = self.pool.acquire().await?;
        let mark = Statement::new(include_str!("../../sql/intake/mutant_mark.sql"));
        let mut marked = events(&mark.fetch_all::<Postgres>(&mut connection).await?)?;
        marked.sort_by_key(|event| event.id);
        if !marked.is_empty() {
            self.part.point(MARKED);
        }
        for event in marked {
            self.send(&event).await?;
        }
        Ok(())
    }

    /// Two relays with a share each of one key's events.
    async fn skip_locked(&self) -> anyhow::Result<()> {
        let mut tx = self.pool.begin().await?;
        let free = Statement::new(include_str!("../../sql/intake/mutant_skip_locked.sql"));
        for event in events(&free.fetch_all::<Postgres>(&mut tx).await?)? {
            self.send(&event).await?;
            delete(&mut tx, &event).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Pipelined; a message that expires in an outage is sent again, behind those that came after it.
    async fn expiring(&self) -> anyhow::Result<()> {
        let mut connection = self.pool.acquire().await?;
        let (mut under_way, mut sending) = (HashMap::new(), FuturesUnordered::new());
        loop {
            let all = Statement::new(include_str!("../../sql/intake/mutant_all.sql"));
            for event in events(&all.fetch_all::<Postgres>(&mut connection).await?)? {
                if under_way.insert(event.id, event.clone()).is_none() {
                    sending.push(async move { (event.id, self.send(&event).await.is_ok()) });
                }
            }
            let until = tokio::time::sleep(LOOK);
            tokio::pin!(until);
            loop {
                tokio::select! {
                    () = &mut until => break,
                    Some((id, is_sent)) = sending.next() => {
                        let event = under_way.remove(&id);
                        if let Some(event) = event.filter(|_| is_sent) {
                            delete(&mut connection, &event).await?;
                        }
                    }
                }
            }
        }
    }

    /// All at once; what was refused is made smaller and sent again, behind what came after it.
    async fn pipelined(&self) -> anyhow::Result<()> {
        let mut connection = self.pool.acquire().await?;
        let all = Statement::new(include_str!("../../sql/intake/mutant_all.sql"));
        let events = events(&all.fetch_all::<Postgres>(&mut connection).await?)?;
        let sent = join_all(events.iter().map(|event| self.send(event))).await;
        for (event, sent) in events.iter().zip(sent) {
            if sent.is_err() {
                let mut smaller: Moved = serde_json::from_str(&event.value)?;
                smaller.ballast.clear();
                self.send(&Logged { value: serde_json::to_string(&smaller)?, ..event.clone() }).await?;
            }
            delete(&mut connection, event).await?;
        }
        self.part.pause(GATHER).await;
        Ok(())
    }

    async fn send(&self, event: &Logged) -> anyhow::Result<()> {
        let id = Header { key: EVENT_ID_HEADER, value: Some(&event.event_id) };
        let record = FutureRecord::to(&self.part.task.name).key(&event.key).payload(&event.value);
        let sent = self.producer.send(record.headers(OwnedHeaders::new().insert(id)), SEND_LIMIT).await;
        sent.map(drop).map_err(|(error, _)| error.into())
    }
}

async fn delete(connection: &mut PgConnection, event: &Logged) -> Result<(), sqlx::Error> {
    let delete = Statement::new(include_str!("../../sql/intake/mutant_delete.sql")).bind(event.shard).bind(event.id);
    delete.execute::<Postgres>(connection).await.map(drop)
}

fn events(rows: &[Row<Postgres>]) -> Result<Vec<Logged>, sqlx::Error> {
    let event = |row: &Row<Postgres>| {
        let (key, value, event_id) = (row.text(2)?, row.text(3)?, row.text(4)?);
        Ok(Logged { shard: row.int(0)?, id: row.int(1)?, key, value, event_id })
    };
    rows.iter().map(event).collect()
}

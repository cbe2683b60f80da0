//! Writers on shared keys: each event carries the number of its key's move, taken under the key's lock.

use std::time::Duration;

use leastlock_core::Statement;
use leastlock_outbox::{Event, Outbox};
use leastlock_testkit::database::sql;
use sqlx::{Pool, Transaction};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::super::OutboxEngine;
use super::super::events::{key_name, value};
use super::super::site::Site;
use crate::options::OutboxOptions;

const KEYS: u64 = 200;
/// More moves than a key gets in a day.
const MOVES: u64 = 1 << 20;
/// Numbers of all events that there can be: those of a key rise.
pub(super) const NUMBERS: u64 = KEYS * MOVES;
const WRITERS: u32 = 8;
const BYTES: usize = 200;

/// How many events were committed.
pub(super) const fn committed<DB: OutboxEngine>() -> &'static str {
    sql::<DB>("SELECT CAST(sum(moves) AS bigint) FROM item", "SELECT CAST(sum(moves) AS signed) FROM item")
}

/// A row for each key.
pub(super) async fn prepare<DB: OutboxEngine>(site: &Site<DB>) {
    site.database.execute("CREATE TABLE item (number bigint PRIMARY KEY, moves bigint NOT NULL)").await;
    let insert = sql::<DB>("INSERT INTO item VALUES ($1, 0)", "INSERT INTO item VALUES (?, 0)");
    let mut connection = site.database.pool.acquire().await.expect("a connection");
    for key in 0..KEYS {
        let insert = Statement::new(insert).bind(i64::try_from(key).unwrap_or(i64::MAX));
        insert.execute::<DB>(&mut connection).await.expect("a row for each key");
    }
}

/// Starts the writers; they end when told to.
pub(super) fn start<DB: OutboxEngine>(
    site: &Site<DB>,
    topic: &str,
    options: &OutboxOptions,
    stop: &CancellationToken,
) -> JoinHandle<anyhow::Result<()>> {
    let mut writing = JoinSet::new();
    for number in 0..WRITERS {
        let writer = Writer {
            pool: site.database.pool.clone(),
            outbox: site.outbox.clone(),
            topic: topic.to_owned(),
            rng: fastrand::Rng::with_seed(options.common.seed ^ (u64::from(number) << 32)),
            pause: Duration::from_secs(1) * WRITERS / options.rate,
        };
        writing.spawn(writer.write(stop.clone()));
    }
    tokio::spawn(async move {
        while let Some(ended) = writing.join_next().await {
            ended??;
        }
        Ok(())
    })
}

struct Writer<DB: OutboxEngine> {
    pool: Pool<DB>,
    outbox: Outbox,
    topic: String,
    rng: fastrand::Rng,
    pause: Duration,
}

impl<DB: OutboxEngine> Writer<DB> {
    async fn write(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut ticks = tokio::time::interval(self.pause);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            // In order, so that writers do not deadlock.
            let mut keys: Vec<u64> = (0..self.rng.u8(1..=3)).map(|_| self.rng.u64(..KEYS)).collect();
            keys.sort_unstable();
            let mut tx = self.pool.begin_with(DB::BEGIN_WRITE).await?;
            for key in keys {
                self.move_item(&mut tx, key).await?;
            }
            if self.rng.u8(..8) == 0 { tx.rollback().await? } else { tx.commit().await? }
        }
        Ok(())
    }

    async fn move_item(&self, tx: &mut Transaction<'static, DB>, key: u64) -> anyhow::Result<()> {
        let update = sql::<DB>(
            "UPDATE item SET moves = moves + 1 WHERE number = $1",
            "UPDATE item SET moves = moves + 1 WHERE number = ?",
        );
        // Under the lock that the update took.
        let read = sql::<DB>("SELECT moves FROM item WHERE number = $1", "SELECT moves FROM item WHERE number = ?");
        let bound = i64::try_from(key)?;
        Statement::new(update).bind(bound).execute::<DB>(tx).await?;
        let moves = Statement::new(read).bind(bound).fetch_one::<DB>(tx).await?.int(0)?;
        let number = key * MOVES + u64::try_from(moves)?;
        self.outbox.append(tx, Event::new(&self.topic, key_name(key)).bytes(value(number, BYTES))).await?;
        Ok(())
    }
}

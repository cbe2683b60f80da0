//! Deletes what was published long enough ago, beside publishing and at a pace that does not hurt it.
//!
//! A row does not say when it was published, and its age says nothing: after an outage of a week it is a week old and new. So a
//! *mark* is taken now and then of what has been published by that moment; what a mark of `retention` ago has behind it goes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::relay::connection::within;
use crate::relay::log::Log;
use crate::relay::ownership::Ownership;
use crate::relay::stats::Stats;

/// The most events that one statement deletes, and the fewest that it is left with when it was too slow.
const BATCH: (i64, i64) = (1_000, 10);
/// Marks in a retention: an event stays at most a twentieth of it longer.
const MARKS: u32 = 20;
/// The longest pause between two rounds over the shards.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How many times as long as a full batch took nothing is deleted: a quarter of the time of one connection.
const REST: u32 = 3;

/// Deletes for one run of a relay.
#[derive(Debug)]
pub(super) struct Sweeper<L> {
    log: Arc<L>,
    ownership: Ownership,
    retention: Duration,
    /// What a statement may take. Short, so that a pool of two connections has one for the heartbeat in time.
    limit: Duration,
    batch: i64,
    /// Per shard and epoch, from where to go on.
    from: HashMap<(i64, i64), String>,
}

impl<L: Log> Sweeper<L> {
    pub(super) fn new(log: Arc<L>, ownership: Ownership, lease: Duration, retention: Duration) -> Self {
        Self { log, ownership, retention, limit: lease / 12, batch: BATCH.0, from: HashMap::new() }
    }

    /// Deletes until `stop`. What fails is tried again in the next round: nothing depends on it.
    pub(super) async fn sweep_until(mut self, stop: CancellationToken, stats: Stats) {
        let pause = (self.retention / MARKS / 2).min(LONGEST_PAUSE);
        let sweeping = async {
            loop {
                tokio::time::sleep(pause).await;
                if let Err(error) = self.round(&stats).await {
                    tracing::debug!(%error, "published events were not deleted; the next round tries again");
                }
            }
        };
        stop.run_until_cancelled(sweeping).await;
    }

    async fn round(&mut self, stats: &Stats) -> Result<(), Error> {
        let held = self.ownership.kept();
        self.from.retain(|shard, _| held.contains(shard));
        if held.is_empty() {
            return Ok(());
        }
        let shards: Vec<i64> = held.iter().map(|(shard, _)| *shard).collect();
        let (every, keep) = (millis(self.retention / MARKS), millis(self.retention));
        within(self.limit, "a mark of what was published", self.log.mark(&shards, every, keep)).await?;
        for shard in held {
            while self.batch_of(shard, keep, stats).await? {}
        }
        Ok(())
    }

    /// Deletes one batch of a shard, and rests; answers whether there may be more.
    async fn batch_of(&mut self, shard: (i64, i64), keep_ms: i64, stats: &Stats) -> Result<bool, Error> {
        let from = self.from.entry(shard).or_insert_with(|| "0".to_owned());
        let (started, batch) = (Instant::now(), self.batch);
        let swept = within(self.limit, "deleting events", self.log.sweep(shard.0, keep_ms, from, batch)).await;
        self.batch = if swept.is_ok() { (batch * 2).min(BATCH.0) } else { (batch / 2).max(BATCH.1) };
        let (deleted, next) = swept?;
        *from = next;
        stats.count_deleted(deleted);
        let more = deleted >= batch.cast_unsigned();
        if more {
            tokio::time::sleep(started.elapsed() * REST).await;
        }
        Ok(more)
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

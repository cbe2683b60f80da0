//! A relay's lease on its shards, kept by a heartbeat that runs apart from publishing.
//!
//! A shard counts as held only while this process knows its epoch, and only what is held is renewed. A shard that the table
//! says is this relay's and the relay does not know of (the answer of its claim was lost, or it gave the shard up and a
//! late renewal arrived) is therefore free again for others when its lease is over, and for this relay at its next claim.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::Error;
use crate::relay::connection::within;
use crate::relay::cursor::Cursor;
use crate::relay::log::Log;

/// What the client's clock may differ from the database's while a lease lasts, besides a hundredth of it.
const DRIFT: Duration = Duration::from_millis(2);

/// Who this relay is, which shards it holds, and until when they are certainly its own.
#[derive(Debug, Clone)]
pub(crate) struct Ownership {
    owner: String,
    lease: Duration,
    held: Arc<Mutex<Vec<Held>>>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    shard: i64,
    epoch: i64,
    until: Instant,
}

impl Ownership {
    /// A new owner, whose name no other run of a relay has.
    pub(crate) fn new(lease: Duration) -> Self {
        Self { owner: Uuid::new_v4().to_string(), lease, held: Arc::default() }
    }

    /// Until when this relay may publish: the end of the first lease to end.
    pub(crate) fn deadline(&self) -> Instant {
        self.held().iter().map(|held| held.until).min().unwrap_or_else(Instant::now)
    }

    /// Takes every free shard.
    pub(crate) async fn claim(&self, log: &impl Log) -> Result<Vec<Cursor>, Error> {
        let shards: Vec<i64> = self.held().iter().map(|held| held.shard).collect();
        let sent = Instant::now();
        let claimed = log.claim(&self.owner, &shards, self.lease_ms()).await?;
        let mut held = self.held();
        held.retain(|held| claimed.iter().all(|cursor| cursor.shard != held.shard));
        let until = self.until(sent);
        held.extend(claimed.iter().map(|cursor| Held { shard: cursor.shard, epoch: cursor.epoch, until }));
        Ok(claimed)
    }

    /// Lets go of every shard but these. The others are renewed no more.
    pub(crate) fn keep_only(&self, cursors: &[Cursor]) {
        let kept = |held: &Held| cursors.iter().any(|cursor| (cursor.shard, cursor.epoch) == (held.shard, held.epoch));
        self.held().retain(kept);
    }

    /// Renews every third of the lease until `stop`. An attempt gets a sixth of it, and one that failed is made again after a
    /// twelfth: three fit into a lease. One that fails leaves the deadlines where they were.
    pub(crate) async fn keep(self, log: Arc<impl Log>, stop: CancellationToken) {
        let mut pause = self.lease / 3;
        let renewing = async {
            loop {
                tokio::time::sleep(pause).await;
                pause = match within(self.lease / 6, "a renewal", self.renew(&*log)).await {
                    Ok(()) => self.lease / 3,
                    Err(error) => {
                        tracing::warn!(%error, "the outbox shards' lease was not renewed");
                        self.lease / 12
                    }
                };
            }
        };
        stop.run_until_cancelled(renewing).await;
    }

    /// Gives all shards back, so that another relay need not wait for the lease to end.
    pub(crate) async fn release(&self, log: &impl Log) -> Result<(), Error> {
        log.release(&self.owner).await
    }

    async fn renew(&self, log: &impl Log) -> Result<(), Error> {
        let held: Vec<_> = self.held().iter().map(|held| (held.shard, held.epoch)).collect();
        if held.is_empty() {
            return Ok(());
        }
        let sent = Instant::now();
        let renewed = log.renew(&held, self.lease_ms()).await?;
        let until = self.until(sent);
        for now_held in self.held().iter_mut() {
            // A shard that was claimed anew meanwhile has another epoch, and another deadline.
            if held.contains(&(now_held.shard, now_held.epoch)) && renewed.contains(&now_held.shard) {
                now_held.until = now_held.until.max(until);
            }
        }
        Ok(())
    }

    /// A lease runs from the moment the confirmed statement was sent, the earliest at which the database can have run it.
    fn until(&self, sent: Instant) -> Instant {
        sent + self.lease.saturating_sub(self.lease / 100 + DRIFT)
    }

    fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }
}

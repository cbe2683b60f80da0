//! A relay's lease on its shards, kept by a heartbeat that runs apart from publishing.
//!
//! A shard counts as held only while this process knows its epoch, and only what is held is renewed. A shard that the table
//! says is this relay's and the relay does not know of (the answer of its claim was lost, or it gave the shard up and a
//! late renewal arrived) is therefore free again for others when its lease is over, and for this relay at its next claim.
//!
//! Which shards it should hold is [`balance`](crate::relay::balance)'s to say. What is to be handed over is renewed until nothing of it is
//! on its way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::Error;
use crate::relay::balance::{Claim, plan};
use crate::relay::connection::within;
use crate::relay::cursor::Cursor;
use crate::relay::log::Log;

/// What the client's clock may differ from the database's while a lease lasts, besides a hundredth of it.
const DRIFT: Duration = Duration::from_millis(2);
/// The longest time between two looks at who is there: it decides how soon a relay that joins is given its share.
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// How much later than the end of another relay's lease it is looked whether the shard is free.
const AFTER_THE_END: Duration = Duration::from_millis(5);
/// How many looks a relay that was heard of counts for. One that dies keeps its share from the others no longer.
const LOOKS_TO_STAY: u32 = 5;

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
    /// Whether it is to be handed over.
    draining: bool,
}

/// What [`Ownership::balance`] came to.
#[derive(Debug)]
pub(crate) struct Balanced {
    /// The shards that it took.
    pub(crate) claimed: Vec<Cursor>,
    /// When to look again who is there.
    pub(crate) look_at: Instant,
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

    /// Looks who is there, and takes what is free of this relay's share. What it is to hand over is in
    /// [`draining`](Self::draining) from then on.
    pub(crate) async fn balance(&self, log: &impl Log) -> Result<Balanced, Error> {
        let pause = (self.lease / 10).min(LONGEST_LOOK);
        let stay_ms = i64::try_from((pause * LOOKS_TO_STAY).as_millis()).unwrap_or(i64::MAX);
        let looked = Instant::now();
        let survey = log.survey(&self.owner, stay_ms).await?;
        let (draining, kept): (Vec<Held>, Vec<Held>) = self.held().iter().partition(|held| held.draining);
        let shards = |held: &[Held]| held.iter().map(|held| held.shard).collect::<Vec<_>>();
        let plan = plan(&self.owner, &shards(&kept), &shards(&draining), &survey);
        for held in self.held().iter_mut().filter(|held| plan.give_up.contains(&held.shard)) {
            held.draining = true;
        }
        let mut claimed = Vec::new();
        for claim in &plan.claims {
            claimed.extend(self.claim(log, claim).await?);
        }
        let look_at = looked + plan.next_end.map_or(pause, |end| pause.min(end + AFTER_THE_END));
        Ok(Balanced { claimed, look_at })
    }

    async fn claim(&self, log: &impl Log, claim: &Claim) -> Result<Vec<Cursor>, Error> {
        let sent = Instant::now();
        let most = i64::try_from(claim.most).unwrap_or(i64::MAX);
        let claimed = log.claim(&self.owner, &claim.among, most, self.lease_ms()).await?;
        let mut held = self.held();
        held.retain(|held| claimed.iter().all(|cursor| cursor.shard != held.shard));
        let (until, draining) = (self.until(sent), false);
        held.extend(claimed.iter().map(|cursor| Held { shard: cursor.shard, epoch: cursor.epoch, until, draining }));
        Ok(claimed)
    }

    /// The shards that are to be handed over: nothing more of them is to be read, and once nothing of them is on its way and what
    /// was published is noted, they go to [`give_up`](Self::give_up).
    pub(crate) fn draining(&self) -> Vec<i64> {
        self.held().iter().filter(|held| held.draining).map(|held| held.shard).collect()
    }

    /// The shards that stay this relay's, each with its epoch.
    pub(crate) fn kept(&self) -> Vec<(i64, i64)> {
        self.held().iter().filter(|held| !held.draining).map(|held| (held.shard, held.epoch)).collect()
    }

    /// Frees shards of which nothing is on its way. Where the database does not answer they are free when their lease is over.
    pub(crate) async fn give_up(&self, log: &impl Log, shards: &[i64]) -> Result<(), Error> {
        let given_up: Vec<_> = self.held().extract_if(.., |held| shards.contains(&held.shard)).collect();
        log.give_up(&given_up.iter().map(|held| (held.shard, held.epoch)).collect::<Vec<_>>()).await
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
                    Ok(()) => {
                        self.see(&*log).await;
                        self.lease / 3
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the outbox shards' lease was not renewed");
                        self.lease / 12
                    }
                };
            }
        };
        stop.run_until_cancelled(renewing).await;
    }

    /// What is only for a later move may fail, and takes too little time to cost a renewal.
    async fn see(&self, log: &impl Log) {
        let held: Vec<_> = self.held().iter().map(|held| (held.shard, held.epoch)).collect();
        if let Err(error) = within(self.lease / 12, "a note of the ids drawn", log.see(&held)).await {
            tracing::debug!(%error, "no id drawn by now was noted; the next renewal tries again");
        }
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

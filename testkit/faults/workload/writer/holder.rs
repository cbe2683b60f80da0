//! A process that acquires, writes batches until its lease is over, and acquires again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leastlock_lease::{
    Acquire, BootClock, BootTime, Clock, CorrectnessLease, Error, Fence, FencedStore, Hold, Leases, LockName, Permit,
};
use serde::{Deserialize, Serialize};
use sqlx::Pool;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::backend::Backend;
use super::mutants::{Guard, NO_FENCE, NO_SHARE_LOCK, ONE_STEP_SEAL, failed};
use super::recorded::{Recorded, owner};
use super::shelf::{self, Batch, Shelves};
use super::{IDLE, TTL};
use crate::part::Part;

/// What is called.
pub(super) const WRITE: &str = "write";
pub(super) const SEAL: &str = "seal";
/// What is noted again and again while a seal goes on: that the process is alive.
pub(super) const SEALING: &str = "sealing";
/// What is noted once all is over and the process could write once more.
pub(super) const FINISHED: &str = "finished";
/// Points at which a writer may be killed or stopped.
pub(super) const PERMITTED: &str = "permitted";
pub(super) const CHECKED: &str = "checked";
pub(super) const WRITTEN: &str = "written";
pub(super) const SEALED: &str = "sealed";
pub(super) const LAST_MOMENT: &str = "in the last 100 ms of its TTL";
const MOMENT: Duration = Duration::from_millis(100);
/// One lease in so many is not renewed, so that it comes to its last moment.
const FIXED_IN: u32 = 4;

/// Between two batches of a lane.
const BEAT_MS: std::ops::Range<u64> = 5..40;
/// Between two signs of life.
const SIGN: Duration = Duration::from_millis(200);
/// Before what has failed is tried again.
const AGAIN: Duration = Duration::from_millis(100);
/// How long a writer waits for an answer before it takes the outcome for unknown.
const PATIENCE: Duration = Duration::from_secs(10);

/// A seal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sealing {
    pub(super) token: i64,
    pub(super) owner: String,
}

/// The boot clock, which may stand still from a moment on, as a suspended guest's does: what the contract of [`Clock`] forbids. Who
/// goes by it believes in a lease that ran out meanwhile, and only the resource can tell.
#[derive(Debug, Clone)]
struct Standing {
    part: Part,
    stands_at_ns: Arc<AtomicU64>,
}

impl Clock for Standing {
    fn now(&self) -> BootTime {
        let now = BootClock.now();
        if !self.part.clock_stands() {
            self.stands_at_ns.store(0, Ordering::SeqCst);
            return now;
        }
        let ns = now.since(BootTime::after_boot(Duration::ZERO)).as_nanos();
        let ns = u64::try_from(ns).unwrap_or(u64::MAX).max(1);
        let stands_at = self.stands_at_ns.compare_exchange(0, ns, Ordering::SeqCst, Ordering::SeqCst);
        BootTime::after_boot(Duration::from_nanos(stands_at.err().unwrap_or(ns)))
    }
}

pub(super) struct Holder<S, DB: Shelves> {
    leases: Leases<Recorded<S>>,
    name: LockName,
    fence: Fence,
    pool: Pool<DB>,
    part: Part,
    guard: Guard,
    backend: Backend,
}

impl<S: FencedStore, DB: Shelves> Holder<S, DB> {
    pub(super) fn new(store: S, pool: Pool<DB>, part: Part, backend: Backend) -> anyhow::Result<Self> {
        let name = LockName::new("faults:shelf")?;
        let fence = Fence::new(name.as_str())?.idle_timeout(IDLE);
        let clock = Standing { part: part.clone(), stands_at_ns: Arc::default() };
        let leases = Leases::new(Recorded::new(store, &part)).clock(clock);
        let guard = match part.task.mutant.as_deref() {
            Some(NO_FENCE) => Guard::Absent,
            Some(NO_SHARE_LOCK) => Guard::WithoutLock,
            Some(ONE_STEP_SEAL) => Guard::OneStep,
            _ => Guard::Right,
        };
        Ok(Self { leases, name, fence, pool, part, guard, backend })
    }

    pub(super) async fn live(self) -> anyhow::Result<()> {
        let this = Arc::new(self);
        while !this.part.draining.is_cancelled() {
            let Some(acquired) = this.part.draining.run_until_cancelled(this.acquire()).await else { break };
            match acquired {
                Ok(lease) => this.hold(Arc::new(lease)).await,
                // The store is away, or somebody else has the lock.
                Err(_) => sleep(AGAIN).await,
            }
        }
        while !this.finish().await {
            this.part.pause(AGAIN).await;
            if this.part.shutdown.is_cancelled() {
                return Ok(());
            }
        }
        this.part.recorder.note(FINISHED, &());
        this.part.shutdown.cancelled().await;
        Ok(())
    }

    /// One more turn, once nothing goes wrong any more: whether that is so is what is to be shown.
    async fn finish(&self) -> bool {
        let Ok(lease) = self.acquire().await else { return false };
        let mut is_written = false;
        if self.seal(&lease).await
            && let Ok(permit) = lease.permit()
        {
            let id = format!("{}:{}:last", self.part.task.by(), permit.token());
            is_written = self.write(permit, id).await;
        }
        is_written && timeout(PATIENCE, lease.release()).await.is_ok()
    }

    async fn acquire(&self) -> Result<CorrectnessLease, Error> {
        let floor = timeout(PATIENCE, self.fence.generation(&self.pool)).await;
        let floor = floor.ok().and_then(Result::ok).flatten();
        let hold = if fastrand::u32(..FIXED_IN) == 0 { Hold::fixed(TTL) } else { Hold::renewed(TTL) };
        // It goes on believing while a renewal is not answered.
        let hold = hold.permits_while_unconfirmed();
        self.leases.acquire_with(&self.name, hold, Acquire::default().floor(floor)).await
    }

    /// Writes until the lease is over, or its turn is.
    async fn hold(self: &Arc<Self>, lease: Arc<CorrectnessLease>) {
        let mut lanes = JoinSet::new();
        tokio::select! {
            () = lease.lost() => {}
            () = self.part.draining.cancelled() => {}
            () = self.write_on(&lease, &mut lanes) => {}
        }
        // What a lane has begun it ends, whatever became of the lease: the resource decides.
        lanes.detach_all();
        while Arc::strong_count(&lease) > 1 && !self.part.shutdown.is_cancelled() {
            sleep(Duration::from_millis(5)).await;
        }
        if let Ok(lease) = Arc::try_unwrap(lease) {
            let _whatever = timeout(PATIENCE, lease.release()).await;
        }
    }

    async fn write_on(self: &Arc<Self>, lease: &Arc<CorrectnessLease>, lanes: &mut JoinSet<()>) {
        while !self.seal(lease).await {
            sleep(AGAIN).await;
        }
        self.part.point(SEALED);
        for lane in 0..self.backend.lanes() {
            let (this, lease) = (Arc::clone(self), Arc::clone(lease));
            lanes.spawn(async move { this.lane(lane, &lease).await });
        }
        while lanes.join_next().await.is_some() {}
    }

    async fn lane(&self, lane: usize, lease: &CorrectnessLease) {
        let (mut rng, begun) = (self.part.rng(), Instant::now());
        while begun.elapsed() < self.backend.turn() {
            // A lease that is over is over.
            let Ok(permit) = lease.permit() else { break };
            if self.part.draining.is_cancelled() {
                break;
            }
            if lease.remaining().is_ok_and(|left| left < MOMENT) {
                self.part.point(LAST_MOMENT);
            }
            let token = permit.token().value();
            let id = format!("{}:{token}:{lane}:{}", self.part.task.by(), rng.u32(..));
            self.write(permit, id).await;
            self.part.pause(Duration::from_millis(rng.u64(BEAT_MS))).await;
        }
    }

    async fn seal(&self, lease: &CorrectnessLease) -> bool {
        let Ok(permit) = lease.permit() else { return false };
        let sealing = Sealing { token: permit.token().value(), owner: owner(permit.owner()) };
        let pending = self.part.recorder.call(SEAL, &sealing);
        let signs = async {
            loop {
                sleep(SIGN).await;
                self.part.recorder.note(SEALING, &sealing);
            }
        };
        let sealed = tokio::select! {
            sealed = self.guard.seal(&self.fence, &self.pool, &permit) => sealed,
            () = signs => unreachable!("it goes on for ever"),
        };
        match sealed {
            Ok(()) => pending.done(&()),
            Err(Error::Refused { .. }) => {
                pending.refused(&());
                return false;
            }
            Err(_) => return false,
        }
        true
    }

    /// Whether it was.
    async fn write(&self, permit: Permit, id: String) -> bool {
        let batch = Batch { id, token: permit.token().value(), owner: owner(permit.owner()) };
        let pending = self.part.recorder.call(WRITE, &batch);
        match timeout(PATIENCE, self.apply(&permit, &batch)).await {
            Ok(Ok(())) => {
                pending.done(&());
                return true;
            }
            Ok(Err(Error::Refused { .. })) => pending.refused(&()),
            // The database is away, or the outcome is not known: neither is claimed.
            Ok(Err(_)) | Err(_) => drop(pending),
        }
        false
    }

    async fn apply(&self, permit: &Permit, batch: &Batch) -> Result<(), Error> {
        self.part.point(PERMITTED);
        let mut tx = self.guard.begin(&self.fence, &self.pool, permit).await?;
        self.part.point(CHECKED);
        sleep(Duration::from_millis(fastrand::u64(self.backend.work_ms()))).await;
        let written = shelf::write::<DB>(tx.connection(), batch).await;
        written.map_err(failed)?;
        self.part.point(WRITTEN);
        tx.commit().await
    }
}

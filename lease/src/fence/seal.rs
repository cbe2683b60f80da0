//! Registering a generation at the resource: gate first, then guard.
//!
//! Two committed steps, because share-lockers starve an exclusive locker on PostgreSQL: as long as newcomers can still pass
//! their check, the guard row is never free. So the gate row, which nobody share-locks, stops them first.

use std::time::Duration;

use leastlock_core::classify;
use sqlx::Pool;
use tokio::time::{Instant, sleep};

use super::blocker::Blocker;
use super::{Fence, Refusal, database};
use crate::error::Error;
use crate::event;
use crate::permit::Permit;
use crate::sql::{LeaseSql, Limits, Step};

/// One attempt to raise the guard row waits no longer; what is left of the limit is used by further attempts.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(5);
/// How much longer than the server the client waits for one attempt.
const CLIENT_MARGIN: Duration = Duration::from_secs(1);
/// Pause before a further attempt.
const PAUSE: Duration = Duration::from_millis(20);
const SEAL: &str = "seal the resource";

/// A generation that is registered: older ones are refused from here on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sealed {
    /// How long it took.
    pub waited: Duration,
    /// Transactions that it had to wait for, as far as the engine tells.
    pub blockers: Vec<Blocker>,
}

impl Fence {
    /// Registers the permit's generation at the resource: the new holder's first act, before it reads what it will change.
    ///
    /// When it returns, no transaction of an older generation is open that has passed its check, and none will pass it.
    /// Doing it again with the same lease changes nothing. It takes two short transactions of its own; do not call it while
    /// holding a checked transaction on the same resource.
    ///
    /// While it waits for transactions that were checked before, it logs whom it waits for (PostgreSQL), and it goes on
    /// waiting up to the [limit](Self::seal_limit): it never answers `Ok` unsealed.
    ///
    /// # Errors
    /// [`Error::Refused`] if a newer generation, or another owner of the same number, is there already;
    /// [`Error::SealTimeout`] after the limit; [`Error::Lost`] if the lease ends meanwhile; [`Error::Database`].
    ///
    /// # Cancel safety
    /// Dropped, the resource may be sealed, or its gate closed for older generations only. Seal again.
    pub async fn seal<DB: LeaseSql>(&self, pool: &Pool<DB>, permit: &Permit) -> Result<Sealed, Error> {
        let begun = Instant::now();
        let limit = self.seal_limit.unwrap_or(permit.held().hold().ttl().saturating_mul(2));
        let mut blockers: Vec<Blocker> = Vec::new();
        let mut gate_raised = false;
        loop {
            permit.held().standing()?;
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(Error::SealTimeout { resource: self.resource.clone(), waited: begun.elapsed(), blockers });
            }
            let step = async {
                if !gate_raised {
                    self.raise(pool, Step::Gate, permit, LONGEST_ATTEMPT, &mut blockers).await?;
                    gate_raised = true;
                }
                self.raise(pool, Step::Guard, permit, left.min(LONGEST_ATTEMPT), &mut blockers).await
            };
            match tokio::time::timeout(left.min(LONGEST_ATTEMPT) + CLIENT_MARGIN, step).await {
                Ok(Ok(())) => return Ok(Sealed { waited: begun.elapsed(), blockers }),
                Ok(Err(Error::Database { source, .. })) if classify::<DB>(&source).is_retryable() => {}
                Ok(Err(error)) => return Err(error),
                // Not an answer: both steps may have been done, and can be done again.
                Err(_elapsed) => {}
            }
            sleep(PAUSE.min(limit.saturating_sub(begun.elapsed()))).await;
        }
    }

    /// Carries out one step; refused if somebody else's generation is there already.
    async fn raise<DB: LeaseSql>(
        &self,
        pool: &Pool<DB>,
        step: Step,
        permit: &Permit,
        wait: Duration,
        blockers: &mut Vec<Blocker>,
    ) -> Result<(), Error> {
        let waits_for = |blocker: Blocker| {
            if blockers.iter().all(|seen| seen.pid != blocker.pid) {
                event::seal_waits(permit, &self.resource, &blocker);
                blockers.push(blocker);
            }
        };
        let limits = Limits { wait, idle: self.idle_limit(permit.held().hold().ttl()) };
        let raised = DB::raise(pool, step, self.mark(permit), limits, waits_for);
        if raised.await.map_err(database::<DB>(SEAL))? {
            return Ok(());
        }
        let mut connection = pool.acquire().await.map_err(database::<DB>(SEAL))?;
        let newest = self.newest::<DB>(&mut connection).await.map_err(database::<DB>(SEAL))?;
        Err(self.refused(permit, Refusal::of(permit, newest.as_ref())))
    }
}

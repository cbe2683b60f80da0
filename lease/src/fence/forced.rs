//! Having a resource refuse a holder whose lock was taken away, before the next one comes.

use std::time::Duration;

use leastlock_core::classify;
use sqlx::Pool;
use tokio::time::{Instant, sleep};

use super::blocker::Blocker;
use super::{Fence, Refusal, Sealed, database};
use crate::admin::Seizure;
use crate::error::Error;
use crate::event;
use crate::sql::{LeaseSql, Limits, Mark, Step};
use crate::token::OwnerHash;

const SEAL: &str = "seal the resource";
/// How long it waits for transactions that were checked before, unless [`Fence::seal_limit`] says otherwise.
const LIMIT: Duration = Duration::from_secs(30);
/// How long each step may idle, unless [`Fence::idle_timeout`] says otherwise.
const IDLE: Duration = Duration::from_secs(10);
const LONGEST_ATTEMPT: Duration = Duration::from_secs(5);
const CLIENT_MARGIN: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

impl Fence {
    /// Raises the generation of the resource to that of a lock which was [taken away](crate::Forced): from here on every
    /// transaction of the holder before it is refused, whatever it believes, and nobody's passes until the next holder seals.
    ///
    /// It waits for transactions that were checked before, up to the [limit](Self::seal_limit), by default 30 s.
    ///
    /// # Errors
    /// [`Error::Refused`] if a newer generation is there already, so that there is nothing to do; [`Error::SealTimeout`] after
    /// the limit; [`Error::Database`].
    ///
    /// # Cancel safety
    /// Dropped, the resource may be sealed, or its gate closed for older generations only. Do it again.
    pub async fn seal_forced<DB: LeaseSql>(&self, pool: &Pool<DB>, seizure: &Seizure) -> Result<Sealed, Error> {
        let (begun, limit) = (Instant::now(), self.seal_limit.unwrap_or(LIMIT));
        let mut blockers: Vec<Blocker> = Vec::new();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(Error::SealTimeout { resource: self.resource.clone(), waited: begun.elapsed(), blockers });
            }
            let wait = left.min(LONGEST_ATTEMPT);
            let steps = async {
                for step in [Step::Gate, Step::Guard] {
                    self.raise_forced(pool, step, seizure, wait, &mut blockers).await?;
                }
                Ok(())
            };
            match tokio::time::timeout(wait + CLIENT_MARGIN, steps).await {
                Ok(Ok(())) => return Ok(Sealed { waited: begun.elapsed(), blockers }),
                Ok(Err(Error::Database { source, .. })) if classify::<DB>(&source).is_retryable() => {}
                Ok(Err(error)) => return Err(error),
                // Not an answer: both steps may have been done, and can be done again.
                Err(_elapsed) => {}
            }
            sleep(PAUSE.min(limit.saturating_sub(begun.elapsed()))).await;
        }
    }

    async fn raise_forced<DB: LeaseSql>(
        &self,
        pool: &Pool<DB>,
        step: Step,
        seizure: &Seizure,
        wait: Duration,
        blockers: &mut Vec<Blocker>,
    ) -> Result<(), Error> {
        let owner = &seizure.nonce.as_bytes()[..];
        let mark = Mark { resource: &self.resource, generation: seizure.token.value(), owner };
        let waits_for = |blocker: Blocker| {
            if blockers.iter().all(|seen| seen.pid != blocker.pid) {
                event::forced_seal_waits(seizure, &self.resource, &blocker);
                blockers.push(blocker);
            }
        };
        let limits = Limits { wait, idle: self.idle_limit(IDLE) };
        if DB::raise(pool, step, mark, limits, waits_for).await.map_err(database::<DB>(SEAL))? {
            return Ok(());
        }
        let mut connection = pool.acquire().await.map_err(database::<DB>(SEAL))?;
        let newest = self.newest::<DB>(&mut connection).await.map_err(database::<DB>(SEAL))?;
        let refusal = newest.map_or(Refusal::NotSealed, |newest| {
            let by = newest.guard.map_or(newest.generation, |guard| guard.max(newest.generation));
            if by > seizure.token {
                Refusal::Superseded { by }
            } else {
                Refusal::OtherOwner { owner: OwnerHash::of(&newest.owner) }
            }
        });
        Err(Error::Refused { resource: self.resource.clone(), generation: seizure.token, refusal })
    }
}

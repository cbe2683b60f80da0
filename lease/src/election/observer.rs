//! Who leads, for those who do not.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::admin::{Inspect, LockRecord, Standing};
use crate::error::Error;
use crate::hold::Hold;
use crate::lock_name::LockName;
use crate::store::{Holder, StoreError};
use crate::token::FencingToken;

/// How long the store's answer is waited for.
const ANSWER: Duration = Duration::from_secs(10);
/// It looks no more often, unless it is told to.
const LEAST_PAUSE: Duration = Duration::from_millis(50);

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// Nobody does: the last one has resigned, or its lease has run out, by the store's clock.
    Vacant,
    /// This one does. Its job is what the candidate is called.
    Led(Holder),
}

impl Leadership {
    fn of(record: Option<LockRecord>) -> Self {
        match record {
            Some(record) if record.standing == Standing::Held => Self::Led(record.holder),
            _ => Self::Vacant,
        }
    }

    /// Whether the leader is the same, or there is none, in both.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Vacant, Self::Vacant) => true,
            (Self::Led(one), Self::Led(other)) => (one.owner, one.token) == (other.owner, other.token),
            _ => false,
        }
    }
}

/// Looks who leads. It changes nothing: it extends no lease and takes no place among the candidates.
///
/// What it answers stood at the store a moment ago. It tells whom to ask or what to show; it gives nobody a right to act.
pub struct Observer<S> {
    store: Arc<S>,
    name: LockName,
    every: Duration,
    seen: Option<Leadership>,
}

impl<S: Inspect> Observer<S> {
    /// It looks at every sixth of the TTL.
    pub(super) fn new(store: Arc<S>, name: LockName, ttl: Duration) -> Self {
        Self { store, name, every: (ttl / 6).max(LEAST_PAUSE), seen: None }
    }

    /// How often it looks while it waits for a change; by default every sixth of the election's TTL.
    #[must_use]
    pub const fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Who leads now.
    ///
    /// # Errors
    /// [`Error::Store`] if the store does not answer, within 10 s: then it is *not known* who leads, and nobody must take that for a
    /// vacancy.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn look(&self) -> Result<Leadership, Error> {
        self.record().await.map(Leadership::of)
    }

    /// Waits until somebody else leads than was answered last, or nobody any more; the first time it answers at once. A change that
    /// was undone between two looks is not seen.
    ///
    /// # Errors
    /// As [`look`](Self::look). What was seen before stays, and it can be called again.
    ///
    /// # Cancel safety
    /// Safe: dropped, it has answered nothing.
    pub async fn changed(&mut self) -> Result<Leadership, Error> {
        loop {
            let now = self.look().await?;
            if self.seen.as_ref().is_none_or(|seen| !seen.is_same(&now)) {
                self.seen = Some(now.clone());
                return Ok(now);
            }
            self.pause(self.every).await;
        }
    }

    /// The leader of a later term, if there is one; else pauses, for longer after each of so many `looks`.
    pub(super) async fn successor_of(&self, token: FencingToken, looks: u32) -> Result<Option<LockRecord>, Error> {
        let record = self
            .record()
            .await?
            .filter(|record| record.standing == Standing::Held && record.holder.token.is_some_and(|now| now > token));
        if record.is_none() {
            self.pause(LEAST_PAUSE.saturating_mul(2_u32.saturating_pow(looks)).min(self.every)).await;
        }
        Ok(record)
    }

    async fn record(&self) -> Result<Option<LockRecord>, Error> {
        let answer = timeout(ANSWER, self.store.inspect(&self.name)).await;
        let answer = answer.unwrap_or_else(|_elapsed| Err(StoreError::retryable("no answer in time")));
        answer.map_err(|source| Error::Store { name: self.name.clone(), source })
    }

    /// Up to a quarter shorter, so that many observers do not look at once.
    async fn pause(&self, longest: Duration) {
        sleep(longest.min(Hold::MAX_TTL).mul_f64(1.0 - fastrand::f64() / 4.0)).await;
    }
}

impl<S> fmt::Debug for Observer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("name", &self.name).field("seen", &self.seen).finish_non_exhaustive()
    }
}

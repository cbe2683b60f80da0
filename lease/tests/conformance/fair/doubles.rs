//! Waiters that make the classic mistakes, on whatever store they are made.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use leastlock_lease::{
    Capabilities, Claim, FencedStore, FencingToken, Grant, LeaseStore, OwnerNonce, Release, Renewal, StoreError,
};

use crate::rig::Rig;

/// Which mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Takes the end of the one before it for its own turn, and does not look whether its own place still stands.
    TrustsItsPredecessor,
    /// Leaves the queue between two attempts.
    LosesItsPlace,
    /// Asks for the floor when it takes its place, and not when its turn comes.
    ForgetsTheFloor,
}

pub(crate) struct Mistaken<R: Rig> {
    rig: R,
    store: R::Store,
    mistake: Mistake,
    /// The holder's token when a claim was first refused.
    before: Mutex<HashMap<OwnerNonce, Option<FencingToken>>>,
}

impl<R: Rig> Mistaken<R> {
    pub(crate) fn new(rig: &R, mistake: Mistake) -> Self {
        Self { rig: rig.clone(), store: rig.store(), mistake, before: Mutex::default() }
    }
}

impl<R: Rig> LeaseStore for Mistaken<R> {
    type Token = FencingToken;
    type Waiter = <R::Store as LeaseStore>::Waiter;

    const CAPABILITIES: Capabilities = R::Store::CAPABILITIES;

    async fn acquire(&self, mut claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        if self.mistake == Mistake::ForgetsTheFloor {
            claim.floor = None;
        }
        let before = self.before.lock().unwrap().get(&claim.nonce).copied().flatten();
        if let Some(before) = before
            && self.mistake == Mistake::TrustsItsPredecessor
            && self.rig.look().await.token != Some(before.value())
        {
            // As its own place was behind that one.
            let token = FencingToken::new(before.value() + 1).unwrap();
            return Ok(Grant::Granted { token, ttl: claim.ttl });
        }
        let grant = self.store.acquire(claim).await?;
        if let Grant::Held(holder) = &grant {
            self.before.lock().unwrap().insert(claim.nonce, holder.token);
            if self.mistake == Mistake::LosesItsPlace {
                let _ = self.store.release(claim).await?;
            }
        }
        Ok(grant)
    }

    fn waiter(&self, claim: Claim<'_>) -> Self::Waiter {
        self.store.waiter(claim)
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        self.store.renew(claim, token).await
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        self.store.release(claim).await
    }

    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        self.store.let_expire(claim, remaining);
    }
}

impl<R: Rig> FencedStore for Mistaken<R> {}

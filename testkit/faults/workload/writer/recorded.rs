//! A lock store that writes down what it is asked and what it answers, whichever it is.

use std::time::Duration;

use leastlock_lease::{
    Capabilities, Claim, FencedStore, FencingToken, Grant, LeaseStore, OwnerNonce, Release, Renewal, StoreError,
};
use serde::{Deserialize, Serialize};

use crate::part::Part;

/// What the store is asked.
pub(super) const ASK: &str = "lock store";
/// Points at which a process may be killed or stopped: before a renewal is sent, and before a claim is.
pub(super) const RENEWING: &str = "renewing";
pub(super) const ACQUIRING: &str = "acquiring";

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ask {
    Acquire,
    Renew,
    Release,
}

/// What is asked for whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) ask: Ask,
    pub(super) owner: String,
    /// Of a renewal.
    pub(super) token: i64,
}

/// A definite answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    /// Of a grant.
    pub(super) token: i64,
    pub(super) ttl_ms: i64,
}

/// What an owner is called.
pub(super) fn owner(nonce: &OwnerNonce) -> String {
    format!("{:032x}", u128::from_be_bytes(*nonce.as_bytes()))
}

#[derive(Debug)]
pub(super) struct Recorded<S> {
    store: S,
    part: Part,
}

impl<S> Recorded<S> {
    pub(super) fn new(store: S, part: &Part) -> Self {
        Self { store, part: part.clone() }
    }

    fn asked(&self, ask: Ask, claim: &Claim<'_>, token: i64) -> crate::record::Pending {
        self.part.recorder.call(ASK, &Asked { ask, owner: owner(&claim.nonce), token })
    }
}

impl<S: FencedStore> LeaseStore for Recorded<S> {
    type Token = FencingToken;
    type Waiter = S::Waiter;

    const CAPABILITIES: Capabilities = S::CAPABILITIES;

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        let asked = self.asked(Ask::Acquire, &claim, 0);
        self.part.point(ACQUIRING);
        let grant = self.store.acquire(claim).await?;
        match &grant {
            Grant::Granted { token, ttl } => asked.done(&Told { token: token.value(), ttl_ms: ms(*ttl) }),
            _ => asked.refused(&Told { token: 0, ttl_ms: 0 }),
        }
        Ok(grant)
    }

    fn waiter(&self, claim: Claim<'_>) -> S::Waiter {
        self.store.waiter(claim)
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        let asked = self.asked(Ask::Renew, &claim, token.value());
        self.part.point(RENEWING);
        let renewal = self.store.renew(claim, token).await?;
        match renewal {
            Renewal::Renewed { ttl } => asked.done(&Told { token: token.value(), ttl_ms: ms(ttl) }),
            Renewal::NotOwner => asked.refused(&Told { token: token.value(), ttl_ms: 0 }),
        }
        Ok(renewal)
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        let asked = self.asked(Ask::Release, &claim, 0);
        let release = self.store.release(claim).await?;
        match release {
            Release::Released => asked.done(&Told { token: 0, ttl_ms: 0 }),
            Release::NotOwner => asked.refused(&Told { token: 0, ttl_ms: 0 }),
        }
        Ok(release)
    }

    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        // What is left to expire may be given up by the store at any time from now on.
        drop(self.asked(Ask::Release, &claim, 0));
        self.store.let_expire(claim, remaining);
    }
}

impl<S: FencedStore> FencedStore for Recorded<S> {}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

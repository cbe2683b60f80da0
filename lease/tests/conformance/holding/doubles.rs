//! Lock stores that make the classic mistakes, on whatever store they are made.

use std::time::Duration;

use leastlock_lease::{
    Capabilities, Claim, FencedStore, FencingToken, Grant, LeaseStore, OwnerNonce, Polling, Release, Renewal,
    StoreError,
};

use crate::rig::Rig;

/// Which mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Deletes the lock by its name.
    ReleasesAnyone,
    /// Renews without asking whose the lease is, and whether it stands.
    RenewsByForce,
    /// Takes a new nonce for each attempt.
    ForgetsItsNonce,
    /// Goes on with the token of the one before.
    KeepsTheToken,
    /// Takes for over whatever it finds, once it comes after somebody.
    TakesOverFromAnyone,
}

pub(crate) struct Mistaken<R: Rig> {
    rig: R,
    store: R::Store,
    mistake: Mistake,
}

impl<R: Rig> Mistaken<R> {
    pub(crate) fn new(rig: &R, mistake: Mistake) -> Self {
        Self { rig: rig.clone(), store: rig.store(), mistake }
    }
}

impl<R: Rig> LeaseStore for Mistaken<R> {
    type Token = FencingToken;
    type Waiter = Polling;

    const CAPABILITIES: Capabilities = Capabilities::PLAIN;

    async fn acquire(&self, mut claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        if self.mistake == Mistake::ForgetsItsNonce {
            claim.nonce = OwnerNonce::random().unwrap();
        }
        if self.mistake == Mistake::TakesOverFromAnyone && claim.after.is_some() {
            self.rig.end_whosever_it_is().await;
        }
        let before = self.rig.look().await.token;
        let grant = self.store.acquire(claim).await?;
        Ok(match (grant, before) {
            (Grant::Granted { ttl, .. }, Some(before)) if self.mistake == Mistake::KeepsTheToken => {
                Grant::Granted { token: FencingToken::new(before).unwrap(), ttl }
            }
            (grant, _) => grant,
        })
    }

    fn waiter(&self, _claim: Claim<'_>) -> Polling {
        Polling
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        if self.mistake != Mistake::RenewsByForce {
            return self.store.renew(claim, token).await;
        }
        self.rig.hold_by_force(claim.nonce).await;
        Ok(Renewal::Renewed { ttl: claim.ttl })
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        if self.mistake != Mistake::ReleasesAnyone {
            return self.store.release(claim).await;
        }
        self.rig.end_whosever_it_is().await;
        Ok(Release::Released)
    }

    fn let_expire(&self, _claim: Claim<'_>, _remaining: Duration) {}
}

impl<R: Rig> FencedStore for Mistaken<R> {}

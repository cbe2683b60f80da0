//! A holder that makes the classic mistake.

use std::time::Duration;

use leastlock_lease::{
    Capabilities, Claim, FencedStore, FencingToken, Grant, LeaseStore, Release, Renewal, StoreError,
};

/// Nobody has said that its lease is over, so it goes on.
pub(super) struct TakesSilenceForYes<S>(pub(super) S);

impl<S: FencedStore> LeaseStore for TakesSilenceForYes<S> {
    type Token = FencingToken;
    type Waiter = S::Waiter;

    const CAPABILITIES: Capabilities = S::CAPABILITIES;

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        self.0.acquire(claim).await
    }

    fn waiter(&self, claim: Claim<'_>) -> S::Waiter {
        self.0.waiter(claim)
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        // Shorter than any attempt may take.
        let answer = tokio::time::timeout(claim.ttl / 12, self.0.renew(claim, token)).await;
        Ok(answer.ok().and_then(Result::ok).unwrap_or(Renewal::Renewed { ttl: claim.ttl }))
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        self.0.release(claim).await
    }

    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        self.0.let_expire(claim, remaining);
    }
}

impl<S: FencedStore> FencedStore for TakesSilenceForYes<S> {}

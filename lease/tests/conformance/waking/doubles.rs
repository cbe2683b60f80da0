//! Stores whose waiters hear nothing.

use std::time::Duration;

use leastlock_lease::{
    Capabilities, Claim, FencedStore, FencingToken, Grant, LeaseStore, Pause, Release, Renewal, StoreError, Waiter,
};

/// A store of which no event is heard, and which is never polled: whoever gets the lock has heard of it in the process.
#[derive(Debug)]
pub(crate) struct Deaf<S>(pub(crate) S);

#[derive(Debug)]
pub(crate) struct Never;

impl Waiter for Never {
    async fn wait(&mut self, _pause: Pause) {
        std::future::pending::<()>().await;
    }
}

impl<S: FencedStore> LeaseStore for Deaf<S> {
    type Token = FencingToken;
    type Waiter = Never;

    const CAPABILITIES: Capabilities = S::CAPABILITIES;

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        self.0.acquire(claim).await
    }

    fn waiter(&self, _claim: Claim<'_>) -> Never {
        Never
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        self.0.renew(claim, token).await
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        self.0.release(claim).await
    }

    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        self.0.let_expire(claim, remaining);
    }
}

impl<S: FencedStore> FencedStore for Deaf<S> {}

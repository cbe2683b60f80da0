//! A store that is away, and an observer that draws the wrong conclusion from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use leastlock_lease::{
    Capabilities, Claim, FencedStore, FencingToken, Grant, Inspect, Leadership, LeaseStore, LockName, LockRecord,
    Observer, Release, Renewal, StoreError,
};

/// Passes requests on, unless it is told to be away.
pub(crate) struct Away<S> {
    pub(crate) store: S,
    pub(crate) is: Arc<AtomicBool>,
    pub(crate) asked: Arc<AtomicU32>,
}

impl<S> Away<S> {
    pub(crate) fn new(store: S) -> (Self, Arc<AtomicBool>, Arc<AtomicU32>) {
        let (is, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        (Self { store, is: Arc::clone(&is), asked: Arc::clone(&asked) }, is, asked)
    }

    fn there(&self) -> Result<&S, StoreError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.is.load(Ordering::SeqCst) { Err(StoreError::retryable("the store is away")) } else { Ok(&self.store) }
    }
}

impl<S: FencedStore> LeaseStore for Away<S> {
    type Token = FencingToken;
    type Waiter = S::Waiter;

    const CAPABILITIES: Capabilities = S::CAPABILITIES;

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        self.there()?.acquire(claim).await
    }

    fn waiter(&self, claim: Claim<'_>) -> S::Waiter {
        self.store.waiter(claim)
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        self.there()?.renew(claim, token).await
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        self.there()?.release(claim).await
    }

    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        self.store.let_expire(claim, remaining);
    }
}

impl<S: FencedStore> FencedStore for Away<S> {}

impl<S: FencedStore + Inspect> Inspect for Away<S> {
    async fn inspect(&self, name: &LockName) -> Result<Option<LockRecord>, StoreError> {
        self.there()?.inspect(name).await
    }

    async fn list(&self, after: Option<&LockName>, limit: u32) -> Result<Vec<LockRecord>, StoreError> {
        self.there()?.list(after, limit).await
    }
}

/// The mistake: no answer is taken for one.
pub(crate) async fn looks_carelessly<S: Inspect>(observer: &Observer<S>) -> Leadership {
    observer.look().await.unwrap_or(Leadership::Vacant)
}

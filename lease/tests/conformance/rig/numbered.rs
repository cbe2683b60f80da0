//! Tokens for a store that has none, so that the suite can tell its owners apart.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leastlock_lease::{
    Capabilities, Claim, FencedStore, FencingToken, Grant, LeaseStore, OwnerNonce, Release, Renewal, StoreError,
};

/// Numbers the owners of a store without tokens, in the order in which they were granted the lock. Nothing but a test may do so:
/// it holds in one process, and only because the test's own memory outlives the store's.
#[derive(Debug)]
pub(crate) struct Numbered<S> {
    pub(crate) store: Arc<S>,
    pub(crate) numbers: Numbers,
}

/// Who was granted the lock as which.
#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    owners: HashMap<OwnerNonce, i64>,
    released: Option<OwnerNonce>,
}

impl Numbers {
    fn of(&self, nonce: OwnerNonce) -> FencingToken {
        let owners = &mut self.0.lock().unwrap().owners;
        let next = i64::try_from(owners.len()).unwrap() + 1;
        FencingToken::new(*owners.entry(nonce).or_insert(next)).unwrap()
    }

    pub(crate) fn last(&self) -> Option<i64> {
        self.0.lock().unwrap().owners.values().max().copied()
    }

    /// Whether the last owner has released, where the store keeps nothing of that.
    pub(crate) fn last_has_released(&self) -> bool {
        let (last, known) = (self.last(), self.0.lock().unwrap());
        known.released.is_some_and(|nonce| known.owners.get(&nonce).copied() == last)
    }

    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap() = Known::default();
    }
}

impl<S: LeaseStore<Token = ()>> LeaseStore for Numbered<S> {
    type Token = FencingToken;
    type Waiter = S::Waiter;

    const CAPABILITIES: Capabilities = S::CAPABILITIES;

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        Ok(match self.store.acquire(claim).await? {
            Grant::Granted { ttl, .. } => Grant::Granted { token: self.numbers.of(claim.nonce), ttl },
            Grant::Held(holder) => {
                let mut holder = holder;
                holder.token = self.numbers.last().and_then(FencingToken::new);
                Grant::Held(holder)
            }
            Grant::BelowFloor { token } => Grant::BelowFloor { token },
        })
    }

    fn waiter(&self, claim: Claim<'_>) -> S::Waiter {
        self.store.waiter(claim)
    }

    async fn renew(&self, claim: Claim<'_>, _token: FencingToken) -> Result<Renewal, StoreError> {
        self.store.renew(claim, ()).await
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        let release = self.store.release(claim).await?;
        if release == Release::Released {
            self.numbers.0.lock().unwrap().released = Some(claim.nonce);
        }
        Ok(release)
    }

    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        self.store.let_expire(claim, remaining);
    }
}

impl<S: LeaseStore<Token = ()>> FencedStore for Numbered<S> {}

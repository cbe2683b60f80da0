//! The sessions of a store, by the nonces of their claims.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::session::{Progress, Session};
use crate::lock_name::LockName;
use crate::store::Claim;
use crate::token::OwnerNonce;

/// How many nonces are remembered that are not to be granted again.
const SPENT: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<OwnerNonce, Arc<Session>>,
    /// The last that were released, and whether they had the lock.
    spent: VecDeque<(LockName, OwnerNonce, bool)>,
}

impl Sessions {
    /// The session of this claim, opened if there is none.
    pub(super) fn of(&self, claim: Claim<'_>, open: impl FnOnce() -> Session) -> Arc<Session> {
        Arc::clone(self.lock().open.entry(claim.nonce).or_insert_with(|| Arc::new(open())))
    }

    pub(super) fn find(&self, claim: Claim<'_>) -> Option<Arc<Session>> {
        self.lock().open.get(&claim.nonce).cloned()
    }

    pub(super) fn progress(&self, claim: Claim<'_>) -> Option<watch::Receiver<Progress>> {
        self.find(claim).map(|session| session.progress())
    }

    /// Forgets a session, which ends with its last user.
    pub(super) fn drop_of(&self, claim: Claim<'_>) -> Option<Arc<Session>> {
        self.lock().open.remove(&claim.nonce)
    }

    /// Forgets a session that was given up, and that its nonce is not to be granted again.
    pub(super) fn release(&self, claim: Claim<'_>, had_it: bool) {
        let mut inner = self.lock();
        inner.open.remove(&claim.nonce);
        if inner.spent.len() == SPENT {
            inner.spent.pop_front();
        }
        inner.spent.push_back((claim.name.clone(), claim.nonce, had_it));
    }

    pub(super) fn is_spent(&self, claim: Claim<'_>) -> bool {
        self.lock().spent.iter().any(|(_, nonce, _)| *nonce == claim.nonce)
    }

    /// Whether this was the last here to have the lock, and nobody here has it now.
    pub(super) fn was_released(&self, claim: Claim<'_>) -> bool {
        let inner = self.lock();
        let last = inner.spent.iter().rev().find(|(name, _, had_it)| name == claim.name && *had_it);
        let taken = || inner.open.values().any(|session| session.has(claim.name));
        last.is_some_and(|(_, nonce, _)| *nonce == claim.nonce) && !taken()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

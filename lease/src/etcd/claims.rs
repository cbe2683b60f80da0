//! What a process keeps for its claims, and the leases of those that are over.
//!
//! Nothing in here decides anything: whose the lock is stands at the server. A process that knows nothing reads it there.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{BootClock, BootTime, Clock};
use crate::token::OwnerNonce;

/// How many leases are kept for later claims. What is left over runs out by itself.
const MOST_IDLE: usize = 64;
/// For this part of its time a lease counts as just extended. The grant is shorter by what has passed of it.
const FRESH: u32 = 20;

/// A lease of etcd, of one claim at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct EtcdLease {
    pub(super) id: i64,
    /// What was asked for, in whole seconds.
    pub(super) asked: i64,
    /// What the server has granted: it has a shortest one of its own.
    pub(super) ttl: Duration,
    /// When that was last confirmed, or a little before.
    pub(super) confirmed: BootTime,
}

impl EtcdLease {
    /// The lease that stands at a key; who has put it there has asked for this TTL.
    pub(super) fn found(id: i64, ttl: Duration) -> Self {
        let asked = whole_seconds(ttl);
        let ttl = Duration::from_secs(asked.unsigned_abs());
        Self { id, asked, ttl, confirmed: BootClock.now() }
    }

    /// How much was left of it at a moment: all, if it was confirmed after that.
    pub(super) fn left_at(&self, moment: BootTime) -> Duration {
        self.ttl.saturating_sub(moment.since(self.confirmed))
    }

    /// Whether it was confirmed so lately that to extend it is not worth a request.
    pub(super) fn is_fresh(&self) -> bool {
        self.left_at(BootClock.now()) >= self.ttl.saturating_sub(self.ttl / FRESH)
    }
}

/// What etcd is asked for: whole seconds, rounded down, since a lease is never longer than was asked for.
pub(super) fn whole_seconds(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX).max(1)
}

/// Where a claim stood in the queue when it was last refused.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The key before its own; `None` if that was gone when it was looked for.
    pub(super) predecessor: Option<Vec<u8>>,
    /// The revision at which that was so.
    pub(super) revision: i64,
}

#[derive(Debug, Clone)]
struct Standing {
    lease: EtcdLease,
    /// The create revision of its key, once an attempt was answered.
    token: Option<i64>,
    place: Option<Place>,
    /// An attempt was sent of which nobody knows the answer: it may still arrive at the server, with this lease.
    doubtful: bool,
}

#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    standings: HashMap<OwnerNonce, Standing>,
    idle: Vec<EtcdLease>,
}

impl Claims {
    /// The lease of a claim, as far as it is known here.
    pub(super) fn lease(&self, nonce: OwnerNonce) -> Option<EtcdLease> {
        self.kept().standings.get(&nonce).map(|standing| standing.lease)
    }

    /// The lease and the token of a claim whose key has been seen.
    pub(super) fn seen(&self, nonce: OwnerNonce) -> Option<(EtcdLease, i64)> {
        let kept = self.kept();
        let standing = kept.standings.get(&nonce)?;
        Some((standing.lease, standing.token?))
    }

    pub(super) fn place(&self, nonce: OwnerNonce) -> Option<Place> {
        self.kept().standings.get(&nonce)?.place.clone()
    }

    /// A lease that is free and has most of its time left.
    pub(super) fn take_idle(&self, asked: i64) -> Option<EtcdLease> {
        let mut kept = self.kept();
        kept.idle.retain(|lease| lease.left_at(BootClock.now()) > lease.ttl / 2);
        let last = kept.idle.iter().rposition(|lease| lease.asked == asked)?;
        Some(kept.idle.swap_remove(last))
    }

    /// An attempt with this lease is about to be sent, and is in doubt until it is answered.
    pub(super) fn sends(&self, nonce: OwnerNonce, lease: EtcdLease) {
        let standing = Standing { lease, token: None, place: None, doubtful: true };
        self.kept().standings.insert(nonce, standing);
    }

    /// The attempt that was sent last was answered: its key has this token, on this lease. One that was in doubt before stays
    /// so, whatever the later ones bring.
    pub(super) fn answered(&self, nonce: OwnerNonce, lease: EtcdLease, token: i64, in_doubt: bool) {
        let standing = Standing { lease, token: Some(token), place: None, doubtful: in_doubt };
        self.kept().standings.insert(nonce, standing);
    }

    pub(super) fn waits(&self, nonce: OwnerNonce, place: Place) {
        if let Some(standing) = self.kept().standings.get_mut(&nonce) {
            standing.place = Some(place);
        }
    }

    pub(super) fn confirmed(&self, nonce: OwnerNonce, at: BootTime) {
        if let Some(standing) = self.kept().standings.get_mut(&nonce) {
            standing.lease.confirmed = at;
        }
    }

    /// Whether an attempt of it may still arrive at the server.
    pub(super) fn is_doubtful(&self, nonce: OwnerNonce) -> bool {
        self.kept().standings.get(&nonce).is_some_and(|standing| standing.doubtful)
    }

    /// The claim has left the queue, and its lease may serve another.
    pub(super) fn end(&self, nonce: OwnerNonce) {
        let mut kept = self.kept();
        if let Some(standing) = kept.standings.remove(&nonce)
            && !standing.doubtful
            && kept.idle.len() < MOST_IDLE
        {
            kept.idle.push(standing.lease);
        }
    }

    /// The claim is over, and its lease is of no more use.
    pub(super) fn forget(&self, nonce: OwnerNonce) {
        self.kept().standings.remove(&nonce);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

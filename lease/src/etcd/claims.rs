//! What a process keeps for its claims, and the leases of those that are over.
//!
//! Whose the lock is stands at the server, and a process that knows nothing reads it there. What decides here is that a claim's turn has come,
//! for a moment: the answer to the release of the one before it has shown it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::KeyValue;
use tokio::sync::Notify;

use super::slots::Slots;
use crate::clock::{BootClock, BootTime, Clock};
use crate::lock_name::LockName;
use crate::token::OwnerNonce;

/// How many leases are kept for later claims. What is left over runs out by itself.
const MOST_IDLE: usize = 64;
/// For this part of its time a lease counts as just extended. The grant is shorter by what has passed of it.
const FRESH: u32 = 20;
/// For how long it counts that a claim was seen to be the oldest. Nobody comes before it, but somebody may take the lock away.
const TURN: Duration = Duration::from_secs(1);

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
    /// The key before its own, and its create revision; `None` if that was gone when it was looked for.
    pub(super) predecessor: Option<(Vec<u8>, i64)>,
    /// Whether that is of the same store, which tells of its end.
    pub(super) beside: bool,
}

/// A claim's key, as far as it is known.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) key: String,
    pub(super) lease: EtcdLease,
    /// Its create revision.
    pub(super) token: i64,
}

impl Known {
    /// Whether this is what stands there.
    pub(super) fn is_at(&self, key: &KeyValue) -> bool {
        key.create_revision() == self.token && key.lease() == self.lease.id
    }
}

#[derive(Debug)]
struct Standing {
    name: LockName,
    /// Which of this process's keys of the lock it has.
    slot: usize,
    key: String,
    lease: EtcdLease,
    /// The create revision of its key, once an attempt was answered.
    token: Option<i64>,
    place: Option<Place>,
    /// When it was seen to be the oldest, by the one before it.
    turn: Option<BootTime>,
    woken: Arc<Notify>,
    /// An attempt was sent of which nobody knows the answer: it may still arrive at the server, with this lease.
    doubtful: bool,
}

#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    standings: HashMap<OwnerNonce, Standing>,
    /// Whose each token is, of those that have one.
    tokens: HashMap<i64, OwnerNonce>,
    slots: Slots,
    idle: Vec<EtcdLease>,
}

impl Kept {
    fn remove(&mut self, nonce: OwnerNonce) -> Option<Standing> {
        let standing = self.standings.remove(&nonce)?;
        // A cluster that was set back may have issued it twice.
        if let Some(token) = standing.token.filter(|token| self.tokens.get(token) == Some(&nonce)) {
            self.tokens.remove(&token);
        }
        Some(standing)
    }

    fn idles(&mut self, lease: EtcdLease) {
        if self.idle.len() < MOST_IDLE {
            self.idle.push(lease);
        }
    }
}

impl Claims {
    /// The lease of a claim, as far as it is known here.
    pub(super) fn lease(&self, nonce: OwnerNonce) -> Option<EtcdLease> {
        self.kept().standings.get(&nonce).map(|standing| standing.lease)
    }

    /// A claim whose key has been seen.
    pub(super) fn seen(&self, nonce: OwnerNonce) -> Option<Known> {
        let kept = self.kept();
        let standing = kept.standings.get(&nonce)?;
        Some(Known { key: standing.key.clone(), lease: standing.lease, token: standing.token? })
    }

    pub(super) fn place(&self, nonce: OwnerNonce) -> Option<Place> {
        self.kept().standings.get(&nonce)?.place.clone()
    }

    /// Notified when the claim's turn has come by way of this process.
    pub(super) fn woken(&self, nonce: OwnerNonce) -> Option<Arc<Notify>> {
        self.kept().standings.get(&nonce).map(|standing| Arc::clone(&standing.woken))
    }

    /// How long the lease of a claim of this process lasts, whose key this is.
    pub(super) fn remaining(&self, key: &[u8], token: i64) -> Option<Duration> {
        let kept = self.kept();
        let standing = kept.standings.get(kept.tokens.get(&token)?)?;
        let is_it = standing.token == Some(token) && standing.key.as_bytes() == key;
        is_it.then(|| standing.lease.left_at(BootClock.now()))
    }

    /// A lease that is free and has most of its time left.
    pub(super) fn take_idle(&self, asked: i64) -> Option<EtcdLease> {
        let mut kept = self.kept();
        kept.idle.retain(|lease| lease.left_at(BootClock.now()) > lease.ttl / 2);
        let last = kept.idle.iter().rposition(|lease| lease.asked == asked)?;
        Some(kept.idle.swap_remove(last))
    }

    /// An attempt with this lease is about to be sent, and is in doubt until it is answered. Answers its key, `key` of the claim's slot:
    /// the same for all attempts of a claim.
    pub(super) fn sends(
        &self,
        nonce: OwnerNonce,
        name: &LockName,
        lease: EtcdLease,
        key: impl FnOnce(usize) -> String,
    ) -> String {
        let mut kept = self.kept();
        let known = kept.remove(nonce);
        let (slot, woken) = match known {
            Some(standing) => (standing.slot, standing.woken),
            None => (kept.slots.take(name), Arc::default()),
        };
        let key = key(slot);
        let standing = Standing {
            name: name.clone(),
            slot,
            key: key.clone(),
            lease,
            token: None,
            place: None,
            turn: None,
            woken,
            doubtful: true,
        };
        kept.standings.insert(nonce, standing);
        key
    }

    /// Another claim stands at the key, and may for as long as its lease. The own lease serves the next attempt, unless it was ended because one
    /// before was in doubt.
    pub(super) fn is_taken(&self, nonce: OwnerNonce, in_doubt: bool) {
        let mut kept = self.kept();
        let Some(standing) = kept.remove(nonce) else { return };
        kept.slots.rest(&standing.name, standing.slot, standing.lease.ttl);
        if !in_doubt {
            kept.idles(standing.lease);
        }
    }

    /// The attempt that was sent last was answered: this is its key. One that was in doubt before stays so, whatever the later ones bring.
    pub(super) fn answered(&self, nonce: OwnerNonce, known: Known, in_doubt: bool) {
        let mut kept = self.kept();
        let Kept { standings, tokens, .. } = &mut *kept;
        if let Some(standing) = standings.get_mut(&nonce) {
            let Known { key, lease, token } = known;
            tokens.insert(token, nonce);
            (standing.key, standing.lease, standing.token) = (key, lease, Some(token));
            (standing.place, standing.doubtful) = (None, in_doubt);
        }
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

    /// What this process has seen to be the oldest claim now, at a moment or after it.
    pub(super) fn comes(&self, nonce: OwnerNonce, key: &[u8], token: i64, at: BootTime) {
        if let Some(standing) = self.kept().standings.get_mut(&nonce)
            && standing.token == Some(token)
            && standing.key.as_bytes() == key
        {
            standing.turn = Some(at);
            standing.woken.notify_one();
        }
    }

    /// The key of a claim that was seen to be the oldest a moment ago; told once.
    pub(super) fn take_turn(&self, nonce: OwnerNonce) -> Option<Known> {
        let mut kept = self.kept();
        let standing = kept.standings.get_mut(&nonce)?;
        let (now, turn) = (BootClock.now(), standing.turn.take()?);
        let token = standing.token.filter(|_| now.since(turn) < TURN)?;
        Some(Known { key: standing.key.clone(), lease: standing.lease, token })
    }

    /// Whether an attempt of it may still arrive at the server.
    pub(super) fn is_doubtful(&self, nonce: OwnerNonce) -> bool {
        self.kept().standings.get(&nonce).is_some_and(|standing| standing.doubtful)
    }

    /// The claim has left the queue, and its lease may serve another.
    pub(super) fn end(&self, nonce: OwnerNonce) {
        let mut kept = self.kept();
        let Some(standing) = kept.remove(nonce) else { return };
        if standing.doubtful {
            kept.slots.rest(&standing.name, standing.slot, standing.lease.ttl);
            return;
        }
        kept.slots.free(&standing.name, standing.slot);
        kept.idles(standing.lease);
    }

    /// The claim is over, and its lease is of no more use.
    pub(super) fn forget(&self, nonce: OwnerNonce) {
        let mut kept = self.kept();
        if let Some(standing) = kept.remove(nonce) {
            kept.slots.rest(&standing.name, standing.slot, standing.lease.ttl);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

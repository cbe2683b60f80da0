//! What a process keeps for its claims. Whose the lock is stands at the server.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use zookeeper_client::OneshotWatcher;

use super::node::{Node, shown};
use super::session::Session;
use crate::clock::{BootClock, BootTime, Clock};
use crate::lock_name::LockName;
use crate::store::{Claim, Holder};
use crate::token::OwnerNonce;

/// For how long it counts that a claim was seen to be the oldest. Nobody comes before it, but somebody may take the lock away.
const TURN: Duration = Duration::from_secs(1);

/// A claim's own node.
#[derive(Debug, Clone)]
pub(super) struct Own {
    pub(super) node: Node,
    pub(super) token: i64,
    /// When it was made, by the server's clock, in milliseconds.
    pub(super) made_ms: i64,
}

/// Where a claim stood when it was last refused.
pub(super) enum Place {
    /// Behind a node that is watched since.
    Behind(OneshotWatcher),
    /// Behind a node of this process, at this path, which is watched if nothing is heard of it.
    Beside(String, Session),
    /// The one before it had gone meanwhile.
    Next,
}

struct Standing {
    session: Session,
    name: LockName,
    job: Option<Box<str>>,
    own: Option<Own>,
    place: Option<Place>,
    granted: bool,
    /// When it was seen to be the oldest, by the one before it.
    turn: Option<BootTime>,
    woken: Arc<Notify>,
    /// An attempt was not answered, and may have made a node.
    doubtful: bool,
}

#[derive(Default)]
pub(super) struct Claims(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    standings: HashMap<OwnerNonce, Standing>,
    /// How many of them there are of each lock.
    locks: HashMap<LockName, usize>,
}

impl Kept {
    /// Whose node this is, if it is one of this session's.
    fn found(&self, node: &Node, session: &Session) -> Option<(OwnerNonce, &Standing, &Own)> {
        let nonce = node.nonce()?;
        let standing = self.standings.get(&nonce).filter(|standing| standing.session.id() == session.id())?;
        let own = standing.own.as_ref().filter(|own| own.node == *node)?;
        Some((nonce, standing, own))
    }

    fn remove(&mut self, nonce: OwnerNonce) -> Option<Standing> {
        let standing = self.standings.remove(&nonce)?;
        if let Some(count) = self.locks.get_mut(&standing.name) {
            *count -= 1;
            if *count == 0 {
                self.locks.remove(&standing.name);
            }
        }
        Some(standing)
    }
}

impl Claims {
    /// The own node, if it is of this session.
    pub(super) fn own(&self, nonce: OwnerNonce, session: &Session) -> Option<Own> {
        let kept = self.kept();
        let standing = kept.standings.get(&nonce).filter(|standing| standing.session.id() == session.id())?;
        standing.own.clone()
    }

    /// Whether all attempts were answered, and the last one granted; with the own node.
    pub(super) fn granted(&self, nonce: OwnerNonce) -> Option<Own> {
        let kept = self.kept();
        let standing = kept.standings.get(&nonce).filter(|standing| standing.granted && !standing.doubtful)?;
        standing.own.clone()
    }

    /// An attempt to make a node is about to be sent; in doubt until it is answered.
    pub(super) fn sends(&self, claim: &Claim<'_>, session: &Session) {
        let standing = Standing {
            session: session.clone(),
            name: claim.name.clone(),
            job: claim.job.map(Into::into),
            own: None,
            place: None,
            granted: false,
            turn: None,
            woken: Arc::default(),
            doubtful: true,
        };
        let mut kept = self.kept();
        kept.remove(claim.nonce);
        kept.standings.insert(claim.nonce, standing);
        *kept.locks.entry(claim.name.clone()).or_default() += 1;
    }

    /// Whether this process has more claims on the lock than one.
    pub(super) fn are_several(&self, name: &LockName) -> bool {
        self.kept().locks.get(name).is_some_and(|count| *count > 1)
    }

    /// A claim of this process, by its node: as others are shown it.
    pub(super) fn shown(&self, node: &Node, session: &Session, released_ms: i64) -> Option<Holder> {
        let kept = self.kept();
        let (nonce, standing, own) = kept.found(node, session)?;
        let remaining = session.client.session_timeout();
        Some(shown(nonce.hash(), own.token, own.made_ms.max(released_ms), remaining, standing.job.as_deref()))
    }

    /// What this process has seen to be the oldest claim, at a moment or after it.
    pub(super) fn comes(&self, node: &Node, session: &Session, at: BootTime) {
        let mut kept = self.kept();
        let Some((nonce, ..)) = kept.found(node, session) else { return };
        if let Some(standing) = kept.standings.get_mut(&nonce) {
            standing.turn = Some(at);
            standing.woken.notify_one();
        }
    }

    /// The own node, if it was seen to be the oldest a moment ago, and how long ago that was; told once.
    pub(super) fn take_turn(&self, nonce: OwnerNonce, session: &Session) -> Option<(Own, Duration)> {
        let mut kept = self.kept();
        let standing = kept.standings.get_mut(&nonce).filter(|standing| standing.session.id() == session.id())?;
        let since = BootClock.now().since(standing.turn.take()?);
        Some((standing.own.clone().filter(|_| since < TURN)?, since))
    }

    /// Notified when the claim's turn has come by way of this process.
    pub(super) fn woken(&self, nonce: OwnerNonce) -> Option<Arc<Notify>> {
        self.kept().standings.get(&nonce).map(|standing| Arc::clone(&standing.woken))
    }

    /// The attempt was answered; what earlier ones may have made was removed, so that nothing is in doubt.
    pub(super) fn has(&self, nonce: OwnerNonce, own: Own) {
        if let Some(standing) = self.kept().standings.get_mut(&nonce) {
            standing.own = Some(own);
            standing.doubtful = false;
        }
    }

    pub(super) fn is_granted(&self, nonce: OwnerNonce) {
        if let Some(standing) = self.kept().standings.get_mut(&nonce) {
            standing.granted = true;
            standing.place = None;
        }
    }

    pub(super) fn waits(&self, nonce: OwnerNonce, place: Place) {
        if let Some(standing) = self.kept().standings.get_mut(&nonce) {
            standing.place = Some(place);
        }
    }

    pub(super) fn take_place(&self, nonce: OwnerNonce) -> Option<Place> {
        self.kept().standings.get_mut(&nonce)?.place.take()
    }

    /// The claim is over; answers the session in which its nodes were made.
    pub(super) fn end(&self, nonce: OwnerNonce) -> Option<Session> {
        self.kept().remove(nonce).map(|standing| standing.session)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claims").field("count", &self.kept().standings.len()).finish_non_exhaustive()
    }
}

//! What a process keeps for its claims. Whose the lock is stands at the server.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zookeeper_client::OneshotWatcher;

use super::node::Node;
use super::session::Session;
use crate::token::OwnerNonce;

/// A claim's own node.
#[derive(Debug, Clone)]
pub(super) struct Own {
    pub(super) node: Node,
    pub(super) token: i64,
}

/// Where a claim stood when it was last refused.
pub(super) enum Place {
    /// Behind a node that is watched since.
    Behind(OneshotWatcher),
    /// The one before it had gone meanwhile.
    Next,
}

struct Standing {
    session: Session,
    own: Option<Own>,
    place: Option<Place>,
    granted: bool,
    /// An attempt was not answered, and may have made a node.
    doubtful: bool,
}

#[derive(Default)]
pub(super) struct Claims(Mutex<HashMap<OwnerNonce, Standing>>);

impl Claims {
    /// The own node, if it is of this session.
    pub(super) fn own(&self, nonce: OwnerNonce, session: &Session) -> Option<Own> {
        let kept = self.kept();
        let standing = kept.get(&nonce).filter(|standing| standing.session.id() == session.id())?;
        standing.own.clone()
    }

    /// Whether all attempts were answered, and the last one granted; with the own node.
    pub(super) fn granted(&self, nonce: OwnerNonce) -> Option<Own> {
        let kept = self.kept();
        let standing = kept.get(&nonce).filter(|standing| standing.granted && !standing.doubtful)?;
        standing.own.clone()
    }

    /// An attempt to make a node is about to be sent; in doubt until it is answered.
    pub(super) fn sends(&self, nonce: OwnerNonce, session: &Session) {
        let session = session.clone();
        let standing = Standing { session, own: None, place: None, granted: false, doubtful: true };
        self.kept().insert(nonce, standing);
    }

    /// The attempt was answered; what earlier ones may have made was removed, so that nothing is in doubt.
    pub(super) fn has(&self, nonce: OwnerNonce, own: Own) {
        if let Some(standing) = self.kept().get_mut(&nonce) {
            standing.own = Some(own);
            standing.doubtful = false;
        }
    }

    pub(super) fn is_granted(&self, nonce: OwnerNonce) {
        if let Some(standing) = self.kept().get_mut(&nonce) {
            standing.granted = true;
            standing.place = None;
        }
    }

    pub(super) fn waits(&self, nonce: OwnerNonce, place: Place) {
        if let Some(standing) = self.kept().get_mut(&nonce) {
            standing.place = Some(place);
        }
    }

    pub(super) fn take_place(&self, nonce: OwnerNonce) -> Option<Place> {
        self.kept().get_mut(&nonce)?.place.take()
    }

    /// The claim is over; answers the session in which its nodes were made.
    pub(super) fn end(&self, nonce: OwnerNonce) -> Option<Session> {
        self.kept().remove(&nonce).map(|standing| standing.session)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<OwnerNonce, Standing>> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claims").field("count", &self.kept().len()).finish_non_exhaustive()
    }
}

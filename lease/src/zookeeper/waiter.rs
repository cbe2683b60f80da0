//! Watching the node before the own one.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tokio::time::{sleep, timeout};
use zookeeper_client::WatchedEvent;

use super::claims::{Claims, Place};
use crate::store::{Pause, Waiter};
use crate::token::OwnerNonce;

/// A waiter on ZooKeeper: the watch was set by the read that refused, so that nothing can come between.
pub struct ZooKeeperWaiter {
    claims: Arc<Claims>,
    nonce: OwnerNonce,
    /// Kept over several waits. Ends as well when the session does.
    event: Option<Pin<Box<dyn Future<Output = WatchedEvent> + Send>>>,
}

impl ZooKeeperWaiter {
    pub(super) fn new(claims: Arc<Claims>, nonce: OwnerNonce) -> Self {
        Self { claims, nonce, event: None }
    }
}

impl Waiter for ZooKeeperWaiter {
    async fn wait(&mut self, pause: Pause) {
        match self.claims.take_place(self.nonce) {
            Some(Place::Behind(watcher)) => self.event = Some(Box::pin(watcher.changed())),
            Some(Place::Next) => return,
            // The last attempt was not answered: what was watched before still is.
            None => {}
        }
        let Some(event) = &mut self.event else { return sleep(pause.poll).await };
        if timeout(pause.relying, event).await.is_ok() {
            self.event = None;
        }
    }
}

impl fmt::Debug for ZooKeeperWaiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperWaiter").field("owner", &self.nonce).finish_non_exhaustive()
    }
}

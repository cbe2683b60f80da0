//! Watching the node before the own one.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_client::WatchedEvent;

use super::claims::{Claims, Place};
use super::session::Session;
use crate::store::{Pause, Waiter};
use crate::token::OwnerNonce;

/// A waiter on ZooKeeper: the watch was set by the read that refused, so that nothing can come between.
pub struct ZooKeeperWaiter {
    claims: Arc<Claims>,
    nonce: OwnerNonce,
    /// Kept over several waits. Ends as well when the session does.
    event: Option<Event>,
    /// The path of what is not watched yet.
    beside: Option<(String, Session)>,
}

type Event = Pin<Box<dyn Future<Output = WatchedEvent> + Send>>;

/// How long a node of the same session is relied on to tell of its end by itself.
const BESIDE: Duration = Duration::from_millis(100);

impl ZooKeeperWaiter {
    pub(super) fn new(claims: Arc<Claims>, nonce: OwnerNonce) -> Self {
        Self { claims, nonce, event: None, beside: None }
    }
}

impl ZooKeeperWaiter {
    /// Watches a node of this process that has told nothing for a while.
    async fn event(&mut self) -> Result<&mut Event, ()> {
        if let Some((path, session)) = self.beside.clone() {
            sleep(BESIDE).await;
            let answer = session.client.get_and_watch_data(&path).await;
            self.beside = None;
            // Nothing there, or no answer: the next attempt looks.
            let (_, _, watcher) = answer.map_err(drop)?;
            let event: Event = Box::pin(watcher.changed());
            self.event = Some(event);
        }
        self.event.as_mut().ok_or(())
    }
}

impl Waiter for ZooKeeperWaiter {
    async fn wait(&mut self, pause: Pause) {
        match self.claims.take_place(self.nonce) {
            Some(Place::Behind(watcher)) => {
                let event: Event = Box::pin(watcher.changed());
                (self.event, self.beside) = (Some(event), None);
            }
            Some(Place::Beside(path, session)) => (self.event, self.beside) = (None, Some((path, session))),
            Some(Place::Next) => return,
            // The last attempt was not answered: what was watched before still is.
            None => {}
        }
        if self.event.is_none() && self.beside.is_none() {
            return sleep(pause.poll).await;
        }
        let woken = self.claims.woken(self.nonce);
        let told = async {
            match &woken {
                Some(woken) => woken.notified().await,
                None => std::future::pending().await,
            }
        };
        let happened = async {
            if let Ok(event) = self.event().await {
                let _event = event.await;
            }
        };
        let heard = async {
            tokio::select! {
                () = told => false,
                () = happened => true,
            }
        };
        if timeout(pause.relying, heard).await == Ok(true) {
            self.event = None;
        }
    }
}

impl fmt::Debug for ZooKeeperWaiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperWaiter").field("owner", &self.nonce).finish_non_exhaustive()
    }
}

//! Watching the claim before the own one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Error, EventType, WatchFilterType, WatchOptions, WatchResponse, WatchStream};
use tokio::time::{sleep, timeout};

use super::claims::{Claims, Place};
use super::connection::Connections;
use super::requests;
use crate::store::{Pause, StoreError, Waiter};
use crate::token::OwnerNonce;

/// How long a claim of the same store is relied on to tell of its end by itself, before its key is watched.
const BESIDE: Duration = Duration::from_millis(100);

/// A waiter on etcd: it watches the key of the claim before its own, which is deleted by a release and by the end of a lease
/// alike. Behind a claim of its own store it hears of a release without the server.
pub struct EtcdWaiter {
    connections: Arc<Connections>,
    claims: Arc<Claims>,
    nonce: OwnerNonce,
    /// How long it waits for at most, so that each attempt extends the lease of its own place in time.
    longest: Duration,
    watched: Option<Watched>,
}

struct Watched {
    key: Vec<u8>,
    token: i64,
    stream: WatchStream,
    /// The connection that it came by. Once that is given up, nothing is to be heard there.
    connection: usize,
}

impl EtcdWaiter {
    pub(super) fn new(connections: Arc<Connections>, claims: Arc<Claims>, nonce: OwnerNonce, ttl: Duration) -> Self {
        Self { connections, claims, nonce, longest: ttl / 3, watched: None }
    }

    /// Waits until this key of a claim is gone; `false` if that cannot be heard.
    async fn hears(&mut self, key: Vec<u8>, token: i64) -> bool {
        let connection = self.connections.number();
        let mine = |old: &Watched| old.key == key && old.token == token && old.connection == connection;
        let watched = match self.watched.take().filter(mine) {
            Some(watched) => watched,
            None => match self.watch(key, token).await {
                Ok(Some(watched)) => watched,
                Ok(None) => return true,
                Err(_) => return false,
            },
        };
        // In its place, so that a wait which is cut short leaves it to the next one. After an event it is watched anew: if
        // the next attempt is not answered, the same is to be heard again.
        let stream = &mut self.watched.insert(watched).stream;
        let heard = loop {
            match stream.message().await {
                Ok(Some(message)) if message.canceled() => break false,
                Ok(Some(message)) if is_deletion(&message) => break true,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break false,
            }
        };
        self.watched = None;
        heard
    }

    /// From now on, and looks whether it is there still; `None` if it is not. (A watch from an earlier revision on is told by a server that
    /// has gone on since only when that comes to those which lag behind: ten times a second.)
    async fn watch(&self, key: Vec<u8>, token: i64) -> Result<Option<Watched>, StoreError> {
        let link = self.connections.get().await?;
        let connection = link.number();
        let watched = async {
            let deletions = WatchOptions::new().with_filters([WatchFilterType::NoPut]);
            let mut stream = link.client.watch_client().watch(key.clone(), Some(deletions)).await?;
            // Once the server says so, nothing escapes it.
            while !stream.message().await?.ok_or_else(ended)?.created() {}
            let stands = requests::stands(&link.client, &key, token).await?;
            Ok(stands.then_some(stream))
        };
        let watched = watched.await;
        Ok(link.judge(watched)?.map(|stream| Watched { key, token, stream, connection }))
    }
}

fn ended() -> Error {
    Error::WatchError("the stream has ended".to_owned())
}

fn is_deletion(message: &WatchResponse) -> bool {
    message.events().iter().any(|event| event.event_type() == EventType::Delete)
}

impl Waiter for EtcdWaiter {
    async fn wait(&mut self, pause: Pause) {
        let (woken, longest) = (self.claims.woken(self.nonce), self.longest);
        let heard = match self.claims.place(self.nonce) {
            Some(Place { predecessor: Some((key, token)), beside }) => {
                let told = async {
                    match &woken {
                        Some(woken) => woken.notified().await,
                        None => std::future::pending().await,
                    }
                };
                let watched = async {
                    if beside && self.watched.is_none() {
                        sleep(BESIDE).await;
                    }
                    self.hears(key, token).await
                };
                let heard = async {
                    tokio::select! {
                        () = told => true,
                        heard = watched => heard,
                    }
                };
                timeout(pause.relying.min(longest), heard).await.unwrap_or(true)
            }
            // Its turn has come since.
            Some(Place { predecessor: None, .. }) => true,
            None => false,
        };
        if !heard {
            sleep(pause.poll.min(longest)).await;
        }
    }
}

impl fmt::Debug for EtcdWaiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdWaiter").field("owner", &self.nonce).finish_non_exhaustive()
    }
}
